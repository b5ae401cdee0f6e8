// In attention/shared.wgsl: puts the words of a value that came into the tile.

//#for C in 0..STRIPS
//#let BLOCK = C % FOURS
//#let AHEAD = C / FOURS * STRIP
tile_kv[local.y % 4u * FOURS + BLOCK][AHEAD + local.y / 4u * ACROSS + local.x] = next_v_C;
//#endfor
