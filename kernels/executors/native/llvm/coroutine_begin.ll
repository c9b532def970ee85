  %coro.id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %coro.size = call i64 @llvm.coro.size.i64()
  %coro.memory = call ptr @frame(ptr %launch, i64 %coro.size)
  %coro.handle = call ptr @llvm.coro.begin(token %coro.id, ptr %coro.memory)
