// What lies between four positions of x, `down` and `right` from the first of an image.

//#param WIDTH: u32
//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"

// image: the image's first row of x; word: the access, of those of a position.
fn between(image: u32, down: f32, right: f32, word: u32) -> T {
  let top = min(u32(down), params.height - 1u);
  let left = min(u32(right), params.width - 1u);
  let upper = (image + top) * params.width;
  let lower = (image + min(top + 1u, params.height - 1u)) * params.width;
  let next = min(left + 1u, params.width - 1u);
  let across = right - f32(left);
  let above = mix(x_at((upper + left) * params.words + word), x_at((upper + next) * params.words + word), across);
  let below = mix(x_at((lower + left) * params.words + word), x_at((lower + next) * params.words + word), across);
  return mix(above, below, down - f32(top));
}
