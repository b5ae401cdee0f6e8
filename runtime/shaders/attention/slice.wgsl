// q_slice(start, word), k_slice and v_slice: four elements of the head's row at start, zeros past
// its end.

//#param WORDS: u32 // of a row

//#for X in q k v
fn X_slice(start: u32, word: u32) -> vec4<f32> {
  //#if WORDS % 8 == 0
  return X_at(start + word);
  //#else
  return select(vec4<f32>(), X_at(start + min(word, WORDS - 1u)), vec4<bool>(word < WORDS));
  //#endif
}
//#endfor
