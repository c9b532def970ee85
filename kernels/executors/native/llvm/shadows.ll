;; The shadow of a byte is 255 if the byte is undefined and 0 otherwise. It lies in separate memory, at the same distance
;; from the byte in the whole arena. `ORIGIN` is the first undefined byte of the last load that had one, for reports.
declare i64 @llvm.cttz.i64(i64, i1)

define internal void @carry(ptr %launch, i64 %address, i64 %bytes, ptr %shadow, i1 %is.store) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %shadows.place = getelementptr i8, ptr %watch, i64 $SHADOWS$
  %shadows = load i64, ptr %shadows.place
  %there = add i64 %address, %shadows
  %memory = inttoptr i64 %there to ptr
  br i1 %is.store, label %storing, label %loading
storing:
  call void @llvm.memcpy.p0.p0.i64(ptr %memory, ptr %shadow, i64 %bytes, i1 false)
  ret void
loading:
  call void @llvm.memcpy.p0.p0.i64(ptr %shadow, ptr %memory, i64 %bytes, i1 false)
  br label %word
word:
  %i = phi i64 [ 0, %loading ], [ %i.next, %defined ]
  %i.next = add i64 %i, 8
  %fits = icmp ule i64 %i.next, %bytes
  br i1 %fits, label %test, label %rest
test:
  %word.place = getelementptr i8, ptr %memory, i64 %i
  %bits = load i64, ptr %word.place, align 1
  %clean = icmp eq i64 %bits, 0
  br i1 %clean, label %defined, label %dirty
defined:
  br label %word
dirty:
  %first.bit = call i64 @llvm.cttz.i64(i64 %bits, i1 true)
  %first.byte = lshr i64 %first.bit, 3
  %dirty.at = add i64 %i, %first.byte
  br label %note
rest:
  %j = phi i64 [ %i, %word ], [ %j.next, %byte.defined ]
  %more = icmp ult i64 %j, %bytes
  br i1 %more, label %byte, label %finish
byte:
  %byte.place = getelementptr i8, ptr %memory, i64 %j
  %byte.bits = load i8, ptr %byte.place
  %byte.clean = icmp eq i8 %byte.bits, 0
  br i1 %byte.clean, label %byte.defined, label %note
byte.defined:
  %j.next = add i64 %j, 1
  br label %rest
note:
  %at = phi i64 [ %dirty.at, %dirty ], [ %j, %byte ]
  %origin = add i64 %address, %at
  %origin.place = getelementptr i8, ptr %watch, i64 $ORIGIN$
  store i64 %origin, ptr %origin.place
  br label %finish
finish:
  ret void
}

define internal void @undefined(ptr %launch, i64 %site, i64 %lane, i64 %program, i64 %kind) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %origin.place = getelementptr i8, ptr %watch, i64 $ORIGIN$
  %origin = load i64, ptr %origin.place
  call void @fault(ptr %watch, i64 %site, i64 %origin, i64 %lane, i64 %program, i64 %kind)
  ret void
}
