// In attention/shared.wgsl: puts the words of a value that came into the tile.

//#for C in 0..STRIPS
//#let BLOCK = C % FOURS
//#let AHEAD = C / FOURS * STRIP
tile_kv[local.y % 4u * FOURS + BLOCK][AHEAD + local.y / 4u * ACROSS + local.x] = next_v_C;
//#endfor
//#if TAIL > 0
if (local.x < REST) {
  let to = local.y / 4u * TAIL_WIDTH + 4u * local.x;
  //#for E in 0..4
  tails[local.y % 4u][to + E] = next_tail[E];
  //#endfor
}
//#endif
