define internal void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 %lane, i64 %count, i64 %width, ptr %value) alwaysinline nounwind {
  call void @append(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 %lane, i64 %count, i64 %width, ptr %value)
  ret void
}
