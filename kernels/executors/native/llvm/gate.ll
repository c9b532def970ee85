;; A gate is where the warps of one program wait for each other, if they are independent. Its words: barriers passed,
;; warps that have arrived at the next one, a bit for each warp that has not ended, and the old value of an atomic access
;; with its shadow, which the warp that performs it passes to the others.
declare i64 @llvm.ctpop.i64(i64)

;; Let all pass if every warp that has not ended has arrived.
define internal void @let_pass(ptr %gate) nounwind {
entry:
  %arrived.place = getelementptr i64, ptr %gate, i64 1
  %live.place = getelementptr i64, ptr %gate, i64 2
  %arrived = load i64, ptr %arrived.place
  %live = load i64, ptr %live.place
  %wanted = call i64 @llvm.ctpop.i64(i64 %live)
  %all = icmp uge i64 %arrived, %wanted
  br i1 %all, label %pass, label %finish
pass:
  %passed = load i64, ptr %gate
  %passed.up = add i64 %passed, 1
  store i64 %passed.up, ptr %gate
  store i64 0, ptr %arrived.place
  br label %finish
finish:
  ret void
}

;; A warp arrives, and may pass when the number of barriers passed is no longer what this returns.
define internal i64 @arrive(ptr %gate) nounwind {
entry:
  %arrived.place = getelementptr i64, ptr %gate, i64 1
  %passed = load i64, ptr %gate
  %arrived = load i64, ptr %arrived.place
  %arrived.up = add i64 %arrived, 1
  store i64 %arrived.up, ptr %arrived.place
  call void @let_pass(ptr %gate)
  ret i64 %passed
}

;; A warp ends: those that wait need no longer wait for it.
define internal void @leave(ptr %gate, i64 %warp) nounwind {
entry:
  %live.place = getelementptr i64, ptr %gate, i64 2
  %live = load i64, ptr %live.place
  %bit = shl i64 1, %warp
  %others = xor i64 %live, %bit
  store i64 %others, ptr %live.place
  call void @let_pass(ptr %gate)
  ret void
}

;; Whether no warp before this one is left.
define internal i1 @leads(ptr %gate, i64 %warp) nounwind {
entry:
  %live.place = getelementptr i64, ptr %gate, i64 2
  %live = load i64, ptr %live.place
  %below = sub i64 0, %live
  %first = and i64 %live, %below
  %bit = shl i64 1, %warp
  %is.first = icmp eq i64 %first, %bit
  ret i1 %is.first
}
