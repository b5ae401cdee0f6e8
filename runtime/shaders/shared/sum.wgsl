// Declares NAME: the sum of VALUE, or of its square, for i from FROM up to TO in steps of STEP;
// four sums at a time.

//#param NAME: word
//#param VALUE: wgsl // an expression in i
//#param SQUARED: bool = false
//#param FROM: wgsl
//#param TO: wgsl
//#param STEP: u32
//#param T: wgsl

//#let TERM = SQUARED ? "v * v" : "v"
//#for S in 0..4
var NAME_S = T(0.0);
//#endfor
var NAME_next = FROM;
for (; NAME_next + 3u * STEP < TO; NAME_next += 4u * STEP) {
  //#for S in 0..4
  {
    let i = NAME_next + S * STEP;
    let v = VALUE;
    NAME_S += TERM;
  }
  //#endfor
}
for (; NAME_next < TO; NAME_next += STEP) {
  let i = NAME_next;
  let v = VALUE;
  NAME_0 += TERM;
}
let NAME = (NAME_0 + NAME_1) + (NAME_2 + NAME_3);
