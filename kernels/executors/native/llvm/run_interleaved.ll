;; A place is for one program and has a handle for each of its warps, null for one that is done, and a gate.
;; `run` starts programs in free places while there are any; then one warp in flight, drawn by xorshift, runs.
define i64 @run(ptr %launch) nounwind {
entry:
  %handles = alloca [$UNITS$ x ptr]
  %gates = alloca [$PLACES$ x [5 x i64]]
  %lefts = alloca [$PLACES$ x i64]
  %next.place = alloca i64
  %live.place = alloca i64
  %units.place = alloca i64
  %state.place = alloca i64
  call void @llvm.memset.p0.i64(ptr %handles, i8 0, i64 $UNIT_BYTES$, i1 false)
  call void @llvm.memset.p0.i64(ptr %lefts, i8 0, i64 $PLACE_BYTES$, i1 false)
  store i64 0, ptr %next.place
  store i64 0, ptr %live.place
  store i64 0, ptr %units.place
  %grid.y = getelementptr i8, ptr %launch, i64 8
  %gx = load i32, ptr %launch
  %gy = load i32, ptr %grid.y
  %wide.gx = zext i32 %gx to i64
  %wide.gy = zext i32 %gy to i64
  %programs.place = getelementptr i8, ptr %launch, i64 $PROGRAMS$
  %programs = load i64, ptr %programs.place
  %order.place = getelementptr i8, ptr %launch, i64 $ORDER$
  %order = load ptr, ptr %order.place
  %natural = icmp eq ptr %order, null
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %most.place = getelementptr i8, ptr %watch, i64 $LIVE$
  %most = load i64, ptr %most.place
  %most.units = mul i64 %most, $WARPS$
  %seed.place = getelementptr i8, ptr %watch, i64 $SEED$
  %seed = load i64, ptr %seed.place
  store i64 %seed, ptr %state.place
  %frames.place = getelementptr i8, ptr %watch, i64 $FRAMES$
  %frames = load i64, ptr %frames.place
  %frame.place = getelementptr i8, ptr %watch, i64 $FRAME$
  br label %fill

fill:
  %live = load i64, ptr %live.place
  %next = load i64, ptr %next.place
  %room = icmp ult i64 %live, %most
  %more.programs = icmp ult i64 %next, %programs
  %starts = and i1 %room, %more.programs
  br i1 %starts, label %free, label %choose
free:
  %f = phi i64 [ 0, %fill ], [ %f.next, %taken ]
  %left.place = getelementptr i64, ptr %lefts, i64 %f
  %left = load i64, ptr %left.place
  %is.free = icmp eq i64 %left, 0
  br i1 %is.free, label %pick, label %taken
taken:
  %f.next = add i64 %f, 1
  br label %free
pick:
  %next.up = add i64 %next, 1
  store i64 %next.up, ptr %next.place
  %gate = getelementptr [5 x i64], ptr %gates, i64 %f
  call void @llvm.memset.p0.i64(ptr %gate, i8 0, i64 40, i1 false)
  %gate.live = getelementptr i64, ptr %gate, i64 2
  store i64 $ALL_WARPS$, ptr %gate.live
  br i1 %natural, label %start, label %ordered
ordered:
  %id.place = getelementptr i64, ptr %order, i64 %next
  %id.ordered = load i64, ptr %id.place
  br label %start
start:
  %id = phi i64 [ %next, %pick ], [ %id.ordered, %ordered ]
  %x.wide = urem i64 %id, %wide.gx
  %plane = udiv i64 %id, %wide.gx
  %y.wide = urem i64 %plane, %wide.gy
  %z.wide = udiv i64 %plane, %wide.gy
  %x = trunc i64 %x.wide to i32
  %y = trunc i64 %y.wide to i32
  %z = trunc i64 %z.wide to i32
  %first.unit = mul i64 %f, $WARPS$
  br label %warp
warp:
  %w = phi i64 [ 0, %start ], [ %w.next, %started ]
  %unit = add i64 %first.unit, %w
  %offset = mul i64 %unit, $FRAME_BYTES$
  %frame = add i64 %frames, %offset
  store i64 %frame, ptr %frame.place
  %handle.new = call ptr @program(ptr %launch, i32 %x, i32 %y, i32 %z, i64 %id, i64 %w, ptr %gate)
  %idle = call i1 @llvm.coro.done(ptr %handle.new)
  br i1 %idle, label %started, label %keep
keep:
  %unit.place = getelementptr ptr, ptr %handles, i64 %unit
  store ptr %handle.new, ptr %unit.place
  %left.now = load i64, ptr %left.place
  %left.up = add i64 %left.now, 1
  store i64 %left.up, ptr %left.place
  %units.now = load i64, ptr %units.place
  %units.up = add i64 %units.now, 1
  store i64 %units.up, ptr %units.place
  br label %started
started:
  %w.next = add i64 %w, 1
  %more.warps = icmp ult i64 %w.next, $WARPS$
  br i1 %more.warps, label %warp, label %all.started
all.started:
  %left.all = load i64, ptr %left.place
  %some = icmp ne i64 %left.all, 0
  %one = zext i1 %some to i64
  %live.up = add i64 %live, %one
  store i64 %live.up, ptr %live.place
  br label %fill

choose:
  %units = load i64, ptr %units.place
  %none = icmp eq i64 %units, 0
  br i1 %none, label %finish, label %draw
draw:
  %state = load i64, ptr %state.place
  %left.13 = shl i64 %state, 13
  %state.1 = xor i64 %state, %left.13
  %right.7 = lshr i64 %state.1, 7
  %state.2 = xor i64 %state.1, %right.7
  %left.17 = shl i64 %state.2, 17
  %state.3 = xor i64 %state.2, %left.17
  store i64 %state.3, ptr %state.place
  %high = lshr i64 %state.3, 20
  %drawn = urem i64 %high, %most.units
  br label %seek
seek:
  %k = phi i64 [ %drawn, %draw ], [ %k.next, %empty ]
  %k.place = getelementptr ptr, ptr %handles, i64 %k
  %handle = load ptr, ptr %k.place
  %is.empty = icmp eq ptr %handle, null
  br i1 %is.empty, label %empty, label %resume
empty:
  %k.up = add i64 %k, 1
  %k.next = urem i64 %k.up, %most.units
  br label %seek
resume:
  call void @llvm.coro.resume(ptr %handle)
  %done = call i1 @llvm.coro.done(ptr %handle)
  br i1 %done, label %release, label %choose
release:
  store ptr null, ptr %k.place
  %units.less = sub i64 %units, 1
  store i64 %units.less, ptr %units.place
  %place = udiv i64 %k, $WARPS$
  %place.left = getelementptr i64, ptr %lefts, i64 %place
  %left.before = load i64, ptr %place.left
  %left.less = sub i64 %left.before, 1
  store i64 %left.less, ptr %place.left
  %empties = icmp eq i64 %left.less, 0
  br i1 %empties, label %vacate, label %choose
vacate:
  %live.before = load i64, ptr %live.place
  %live.less = sub i64 %live.before, 1
  store i64 %live.less, ptr %live.place
  br label %fill

finish:
  %count.place = getelementptr i8, ptr %watch, i64 $FAULT_COUNT$
  %faults = load i64, ptr %count.place
  ret i64 %faults
}
