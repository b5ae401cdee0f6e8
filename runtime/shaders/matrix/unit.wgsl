// What every kernel on matrix units is made for: a subgroup's multiplication, f16 to f32 or f32 to
// f32, and workgroups of SUBGROUPS.
//
// Factors of f16 are rounded to it.

//#param ELEMENT: f16 | f32 = f16 // of the factors
//#if ELEMENT == f16
//#include "shared/half.wgsl"
//#endif

//#param UNIT_M: u32 // rows of one multiplication: 8 or 16
//#param UNIT_N: u32 // columns: 8 or 16
//#param UNIT_K: u32 // depth: 8, 16 or 32
//#param LANES: u32 // invocations of a subgroup
//#param FORCES_LANES: bool = false // the adapter could choose another number of them

//#param SUBGROUPS: u32 = 4 // of a workgroup
//#let THREADS = SUBGROUPS * LANES
//#let LEFT = "subgroup_matrix_left<ELEMENT, UNIT_K, UNIT_M>"
//#let RIGHT = "subgroup_matrix_right<ELEMENT, UNIT_N, UNIT_K>"
//#let RESULT = "subgroup_matrix_result<f32, UNIT_N, UNIT_M>"
//#workgroup THREADS, 1, 1
//#if FORCES_LANES
//#subgroup_size LANES
//#endif
