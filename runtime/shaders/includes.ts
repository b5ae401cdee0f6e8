/** The files that others include, by their path below this folder. */
import activation from "./shared/activation.wgsl" with { type: "text" };
import coordinates from "./shared/coordinates.wgsl" with { type: "text" };
import half from "./shared/half.wgsl" with { type: "text" };
import reduce from "./shared/reduce.wgsl" with { type: "text" };
import saturation from "./shared/saturation.wgsl" with { type: "text" };
import sum from "./shared/sum.wgsl" with { type: "text" };
import attentionKeys from "./attention/keys.wgsl" with { type: "text" };
import attentionLogits from "./attention/logits.wgsl" with { type: "text" };
import attentionMatrixFetch from "./attention/matrix_fetch.wgsl" with { type: "text" };
import attentionMatrixPlace from "./attention/matrix_place.wgsl" with { type: "text" };
import attentionMatrixStrip from "./attention/matrix_strip.wgsl" with { type: "text" };
import attentionRegistersLoad from "./attention/registers_load.wgsl" with { type: "text" };
import attentionRegistersWord from "./attention/registers_word.wgsl" with { type: "text" };
import attentionSharedFetch from "./attention/shared_fetch.wgsl" with { type: "text" };
import attentionSharedPlace from "./attention/shared_place.wgsl" with { type: "text" };
import attentionSharedPutValues from "./attention/shared_put_values.wgsl" with { type: "text" };
import attentionSharedValues from "./attention/shared_values.wgsl" with { type: "text" };
import attentionSlice from "./attention/slice.wgsl" with { type: "text" };
import convMatrixFetch from "./conv/matrix_fetch.wgsl" with { type: "text" };
import convMatrixStore from "./conv/matrix_store.wgsl" with { type: "text" };
import convProblem from "./conv/problem.wgsl" with { type: "text" };
import convTaps from "./conv/taps.wgsl" with { type: "text" };
import convTilesFetch from "./conv/tiles_fetch.wgsl" with { type: "text" };
import formatBlocks from "./formats/blocks.wgsl" with { type: "text" };
import formatF8 from "./formats/f8_e4m3.wgsl" with { type: "text" };
import formatKScale from "./formats/k_scale.wgsl" with { type: "text" };
import formatQ40 from "./formats/q4_0.wgsl" with { type: "text" };
import formatQ4K from "./formats/q4_k.wgsl" with { type: "text" };
import formatQ50 from "./formats/q5_0.wgsl" with { type: "text" };
import formatQ5K from "./formats/q5_k.wgsl" with { type: "text" };
import formatQ6K from "./formats/q6_k.wgsl" with { type: "text" };
import formatQ80 from "./formats/q8_0.wgsl" with { type: "text" };
import formatF8E5M2 from "./formats/f8_e5m2.wgsl" with { type: "text" };
import formatIq4Nl from "./formats/iq4_nl.wgsl" with { type: "text" };
import formatIq4Xs from "./formats/iq4_xs.wgsl" with { type: "text" };
import formatMxfp4 from "./formats/mxfp4.wgsl" with { type: "text" };
import formatQ2K from "./formats/q2_k.wgsl" with { type: "text" };
import formatQ3K from "./formats/q3_k.wgsl" with { type: "text" };
import formatQ41 from "./formats/q4_1.wgsl" with { type: "text" };
import formatQ51 from "./formats/q5_1.wgsl" with { type: "text" };
import formatTable from "./formats/table.wgsl" with { type: "text" };
import formatRoundBf16 from "./formats/round_bf16.wgsl" with { type: "text" };
import formatRoundF16 from "./formats/round_f16.wgsl" with { type: "text" };
import formatUnpackF16 from "./formats/unpack_f16.wgsl" with { type: "text" };
import gemmColumns from "./gemm/columns.wgsl" with { type: "text" };
import gemmEpilogue from "./gemm/epilogue.wgsl" with { type: "text" };
import gemmMatrixFetch from "./gemm/matrix_fetch.wgsl" with { type: "text" };
import gemmMatrixPlace from "./gemm/matrix_place.wgsl" with { type: "text" };
import gemmMatrixStore from "./gemm/matrix_store.wgsl" with { type: "text" };
import gemmPass from "./gemm/pass.wgsl" with { type: "text" };
import gemmRegistersStep from "./gemm/registers_step.wgsl" with { type: "text" };
import gemmRegistersTurn from "./gemm/registers_turn.wgsl" with { type: "text" };
import gemmRow from "./gemm/row.wgsl" with { type: "text" };
import gemmSharedFetch from "./gemm/shared_fetch.wgsl" with { type: "text" };
import gemmSharedPlace from "./gemm/shared_place.wgsl" with { type: "text" };
import gemmSizes from "./gemm/sizes.wgsl" with { type: "text" };
import gemmSlice from "./gemm/slice.wgsl" with { type: "text" };
import gemmTileColumns from "./gemm/tile_columns.wgsl" with { type: "text" };
import matrixMultiply from "./matrix/multiply.wgsl" with { type: "text" };
import matrixTile from "./matrix/tile.wgsl" with { type: "text" };
import matrixUnit from "./matrix/unit.wgsl" with { type: "text" };
import ropeTurnFours from "./rope/turn_fours.wgsl" with { type: "text" };
import sampleBetween from "./sample/between.wgsl" with { type: "text" };
import softmaxRows from "./softmax/rows.wgsl" with { type: "text" };

/** Text by path. */
export const INCLUDES: Readonly<Record<string, string>> = {
  "shared/activation.wgsl": activation,
  "shared/coordinates.wgsl": coordinates,
  "shared/half.wgsl": half,
  "shared/reduce.wgsl": reduce,
  "shared/saturation.wgsl": saturation,
  "shared/sum.wgsl": sum,
  "attention/keys.wgsl": attentionKeys,
  "attention/logits.wgsl": attentionLogits,
  "attention/matrix_fetch.wgsl": attentionMatrixFetch,
  "attention/matrix_place.wgsl": attentionMatrixPlace,
  "attention/matrix_strip.wgsl": attentionMatrixStrip,
  "attention/registers_load.wgsl": attentionRegistersLoad,
  "attention/registers_word.wgsl": attentionRegistersWord,
  "attention/shared_fetch.wgsl": attentionSharedFetch,
  "attention/shared_place.wgsl": attentionSharedPlace,
  "attention/shared_put_values.wgsl": attentionSharedPutValues,
  "attention/shared_values.wgsl": attentionSharedValues,
  "attention/slice.wgsl": attentionSlice,
  "conv/matrix_fetch.wgsl": convMatrixFetch,
  "conv/matrix_store.wgsl": convMatrixStore,
  "conv/problem.wgsl": convProblem,
  "conv/taps.wgsl": convTaps,
  "conv/tiles_fetch.wgsl": convTilesFetch,
  "formats/blocks.wgsl": formatBlocks,
  "formats/f8_e4m3.wgsl": formatF8,
  "formats/k_scale.wgsl": formatKScale,
  "formats/q4_0.wgsl": formatQ40,
  "formats/q4_k.wgsl": formatQ4K,
  "formats/q5_0.wgsl": formatQ50,
  "formats/q5_k.wgsl": formatQ5K,
  "formats/q6_k.wgsl": formatQ6K,
  "formats/q8_0.wgsl": formatQ80,
  "formats/f8_e5m2.wgsl": formatF8E5M2,
  "formats/iq4_nl.wgsl": formatIq4Nl,
  "formats/iq4_xs.wgsl": formatIq4Xs,
  "formats/mxfp4.wgsl": formatMxfp4,
  "formats/q2_k.wgsl": formatQ2K,
  "formats/q3_k.wgsl": formatQ3K,
  "formats/q4_1.wgsl": formatQ41,
  "formats/q5_1.wgsl": formatQ51,
  "formats/table.wgsl": formatTable,
  "formats/round_bf16.wgsl": formatRoundBf16,
  "formats/round_f16.wgsl": formatRoundF16,
  "formats/unpack_f16.wgsl": formatUnpackF16,
  "gemm/columns.wgsl": gemmColumns,
  "gemm/epilogue.wgsl": gemmEpilogue,
  "gemm/matrix_fetch.wgsl": gemmMatrixFetch,
  "gemm/matrix_place.wgsl": gemmMatrixPlace,
  "gemm/matrix_store.wgsl": gemmMatrixStore,
  "gemm/pass.wgsl": gemmPass,
  "gemm/registers_step.wgsl": gemmRegistersStep,
  "gemm/registers_turn.wgsl": gemmRegistersTurn,
  "gemm/row.wgsl": gemmRow,
  "gemm/shared_fetch.wgsl": gemmSharedFetch,
  "gemm/shared_place.wgsl": gemmSharedPlace,
  "gemm/sizes.wgsl": gemmSizes,
  "gemm/slice.wgsl": gemmSlice,
  "gemm/tile_columns.wgsl": gemmTileColumns,
  "matrix/multiply.wgsl": matrixMultiply,
  "matrix/tile.wgsl": matrixTile,
  "matrix/unit.wgsl": matrixUnit,
  "rope/turn_fours.wgsl": ropeTurnFours,
  "sample/between.wgsl": sampleBetween,
  "softmax/rows.wgsl": softmaxRows,
};
