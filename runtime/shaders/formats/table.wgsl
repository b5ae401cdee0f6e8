// What blocks share whose numbers stand for the entries of a table. Runs keep the numbers, which are
// looked up where they are used.

//#param NAME: word // of the buffer
//#param ENTRIES: wgsl // a vec4<u32> of 16 bytes
//#include "formats/blocks.wgsl" TABLE=true

fn NAME_entries(q: vec4<u32>) -> vec4<u32> {
  let entries = ENTRIES;
  let is_second = (q & vec4<u32>(4u)) != vec4<u32>();
  let low = select(vec4<u32>(entries.x), vec4<u32>(entries.y), is_second);
  let high = select(vec4<u32>(entries.z), vec4<u32>(entries.w), is_second);
  let word = select(low, high, (q & vec4<u32>(8u)) != vec4<u32>());
  return (word >> ((q & vec4<u32>(3u)) * vec4<u32>(8u))) & vec4<u32>(255u);
}

fn NAME_unpacked(word: u32, factor: f32, offset: f32) -> vec4<f32> {
  return fma(vec4<f32>(factor), vec4<f32>(NAME_entries(NAME_bytes(word))), vec4<f32>(offset));
}
