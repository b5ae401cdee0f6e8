/** Where the tests of others expect something else on purpose, or what this server does not provide. */

/** Tests that do not pass. */
export interface Difference {
  /** Matches their names. */
  readonly tests: RegExp;
  /** Matches what they say. */
  readonly says: RegExp;
  readonly why: string;
}

export const KNOWN: Readonly<Record<string, readonly Difference[]>> = {
  openai: [
    {
      tests: /variation/,
      says: /does not provide image variations/,
      why: "variations of images are not provided",
    },
    {
      tests: /TestVideos::.*_(create_character|get_character|edit|extend|remix)\[/,
      says: /Error code: 40[45]/,
      why: "characters, edits, extensions and remixes of videos are not provided",
    },
    {
      tests: /TestVideos::.*_(create|list)\[/,
      says: /'96x96' in|invalid for expected schema/,
      why: "sizes are the model's, not four of OpenAI's",
    },
    {
      tests: /TestVideos::.*_(retrieve|delete)\[/,
      says: /Video not found/,
      why: "the tests name a video that nobody made",
    },
    { tests: /list_with_all_params/, says: /field 'limit'/, why: "a limit of 0 is refused" },
    {
      tests: /TestModels::.*_retrieve\[/,
      says: /does not exist/,
      why: "the tests name a model of OpenAI's",
    },
    { tests: /TestModels::.*_delete\[/, says: /Error code: 40[45]/, why: "models are not deleted" },
  ],
  sglang: [
    {
      tests: /multi_lora/,
      says: /./,
      why: "a LoRA for transformer_2 is refused where the model has one transformer",
    },
  ],
  vllm_omni: [
    {
      tests: /delete_video|create_list_retrieve_download_video/,
      says: /file_name|video\.deleted/,
      why: "records of videos have no file_name, and a deleted one is SGLang's, not OpenAI's",
    },
    {
      tests: /klein_inpaint_basic/,
      says: /\(96, 96\) == \(512, 512\)/,
      why: "sizes are the model's",
    },
  ],
  webuiapi: [
    { tests: /interrogate/, says: /404/, why: "no model here describes pictures" },
  ],
};
