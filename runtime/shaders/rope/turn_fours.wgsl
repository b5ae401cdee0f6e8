// turned(v, angle): two neighbouring pairs, turned by the angles that are entries angle and angle +
// 1 of the tables.

fn turned(v: vec4<f32>, angle: u32) -> vec4<f32> {
  let c = vec2<f32>(cos_table_at(angle), cos_table_at(angle + 1u));
  let s = vec2<f32>(sin_table_at(angle), sin_table_at(angle + 1u));
  return vec4<f32>(v.x * c.x - v.y * s.x, v.y * c.x + v.x * s.x, v.z * c.y - v.w * s.y, v.w * c.y + v.z * s.y);
}
