// Declares c_0, c_1, …: where element INDEX of a dense tensor lies, given its sizes in
// params.size_1, ….

//#param INDEX: wgsl
//#param RANK: u32

//#let LAST = RANK - 1
let rest_LAST = INDEX;
//#for I in 1..RANK
//#let D = RANK - I
//#let OUTER = D - 1
let c_D = rest_D % params.size_D;
let rest_OUTER = rest_D / params.size_D;
//#endfor
let c_0 = rest_0;
