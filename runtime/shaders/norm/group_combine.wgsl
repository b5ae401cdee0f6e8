// Second of three kernels of groupNorm. Joins the partial sums of a group and writes what the third
// one needs per channel: pivot, factor and offset of y = (x - pivot) * factor + offset.
//
// One group of one batch entry per workgroup. Grid: batch * groups.

//#param LANES: u32 // invocations per group: 1, or a power of two whose sums meet in workgroup memory
//#param WEIGHT: bool = false
//#param BIAS: bool = false

//#buffer read       x       1 // [batch, positions, channels]
//#buffer read       partial 1 // [batch, chunks, 2, channels]
//#if WEIGHT
//#buffer read       weight  1 // [channels]
//#endif
//#if BIAS
//#buffer read       bias    1 // [channels]
//#endif
//#buffer read_write affine  1 // [batch, 3, channels]
//#uniform groups: u32
//#uniform channels: u32
//#uniform positions: u32
//#uniform chunks: u32
//#uniform chunk_rows: u32
//#uniform eps: f32
//#workgroup LANES, 1, 1

//#if LANES > 1
var<workgroup> parts: array<f32, LANES>;
//#include "shared/reduce.wgsl" NAME=sum, JOIN="a + b"
//#else
fn reduce_sum(own: f32, lane: u32) -> f32 { return own; }
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let channels = params.channels;
  let own = channels / params.groups;
  let batch = wg.x / params.groups;
  let first = (wg.x % params.groups) * own;
  let origin = batch * params.positions * channels;
  let pivot = x_at(origin + first);
  let items = params.chunks * own;
  let size = f32(params.positions) * f32(own);
  var moment = 0.0;
  for (var i = local.x; i < items; i += LANES) {
    let chunk = i / own;
    let channel = first + i % own;
    let rows = f32(min(params.chunk_rows, params.positions - chunk * params.chunk_rows));
    let mean = partial_at((batch * params.chunks + chunk) * 2u * channels + channel);
    moment += rows * ((x_at(origin + channel) - pivot) + mean);
  }
  let center = reduce_sum(moment, local.x) / size;
  var spread = 0.0;
  for (var i = local.x; i < items; i += LANES) {
    let chunk = i / own;
    let channel = first + i % own;
    let rows = f32(min(params.chunk_rows, params.positions - chunk * params.chunk_rows));
    let at = (batch * params.chunks + chunk) * 2u * channels + channel;
    let apart = ((x_at(origin + channel) - pivot) + partial_at(at)) - center;
    spread += partial_at(at + channels) + rows * apart * apart;
  }
  let scale = inverseSqrt(reduce_sum(spread, local.x) / size + params.eps);
  for (var c = local.x; c < own; c += LANES) {
    let channel = first + c;
    //#if WEIGHT
    let factor = scale * weight_at(channel);
    //#else
    let factor = scale;
    //#endif
    //#if BIAS
    let offset = bias_at(channel) - center * factor;
    //#else
    let offset = -center * factor;
    //#endif
    let at = batch * 3u * channels + channel;
    affine_put(at, pivot);
    affine_put(at + channels, factor);
    affine_put(at + 2u * channels, offset);
  }
}
