declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare $COROUTINE_END$ @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare i1 @llvm.coro.done(ptr)
declare void @llvm.trap()

define internal ptr @frame(ptr %launch, i64 %size) noinline nounwind {
entry:
  %fits = icmp ule i64 %size, $FRAME_BYTES$
  br i1 %fits, label %give, label %fail
fail:
  call void @llvm.trap()
  unreachable
give:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %frame.place = getelementptr i8, ptr %watch, i64 $FRAME$
  %frame = load ptr, ptr %frame.place
  ret ptr %frame
}
