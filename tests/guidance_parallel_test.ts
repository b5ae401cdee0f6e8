/** Guidance on several GPUs: each computes passes of its own, and what comes out is what one GPU makes. */
import assert from "node:assert/strict";
import type { PipelineRequest } from "../models/mod.ts";
import { FOLDER, REQUEST } from "./pipeline_fixture.ts";
import { generateAlone, withTeam } from "./ranks.ts";

const SEQUENTIAL: PipelineRequest = { ...REQUEST, guidancePasses: "sequential" };

const WAN: Readonly<Record<string, PipelineRequest>> = {
  "guided": SEQUENTIAL,
  "CFG-Zero*": { ...SEQUENTIAL, cfgZeroStar: true },
  "three passes": {
    ...SEQUENTIAL,
    ...{ skipGuidanceLayers: [0], skipLayerGuidanceStart: 0, skipLayerGuidanceStop: 1 },
  },
  "not guided": { ...SEQUENTIAL, guidanceScale: 1 },
};

Deno.test("guidance on two GPUs gives the latents and frames of one, bit for bit", async (t) => {
  const alone = await generateAlone(FOLDER, Object.values(WAN));
  await withTeam(FOLDER, 2, (guidance) => ({ guidance }), async ({ generate }) => {
    for (const [i, [name, request]] of Object.entries(WAN).entries()) {
      await t.step(name, async () => {
        const [first, second] = await generate(request);
        assert.deepEqual(first!.latents, alone[i]!.latents);
        assert.deepEqual(first!.frames, alone[i]!.frames);
        assert.equal(second!.frames.length, 0);
      });
    }
  });
});
