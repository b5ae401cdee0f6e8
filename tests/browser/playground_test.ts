/** What takes long of the playground without a server, and of models in a tab. */
import assert from "node:assert/strict";
import { PAGE } from "./page.ts";
import { browserTest, openSite } from "./tab.ts";

browserTest(
  "the playground without a server edits, adds a LoRA, cancels, deletes and takes a picked folder",
  "firefox",
  async () => {
    await using site = await openSite();
    const found = await site.run(
      "firefox",
      `${PAGE}
    const page = () => frame.contentDocument;
    const button = (text, among = "button") => until(() =>
      [...page().querySelectorAll(among)].find((found) => found.textContent.includes(text) && !found.disabled)
    );
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    await write(await until("main textarea"), "a red heart");
    await generate();
    const plain = await shown();
    (await button("Edit")).click();
    await pause(500);
    await generate();
    const edited = await shown(plain.src);
    (await until("button[aria-label^=Remove]")).click();
    const lora = await (await fetch("./bundled/adapters/outline.safetensors")).blob();
    const dropped = new frame.contentWindow.DataTransfer();
    dropped.items.add(new File([lora], "ink.safetensors"));
    const options = { dataTransfer: dropped, bubbles: true, cancelable: true };
    (await until("main textarea")).dispatchEvent(new frame.contentWindow.DragEvent("drop", options));
    const report = await until(() => /ink.safetensors changes \\d+ layers/.exec(page().body.textContent)?.[0]);
    await generate();
    const styled = await shown(edited.src);
    const database = await new Promise((resolve) => {
      const opening = indexedDB.open("denoise");
      opening.onsuccess = () => resolve(opening.result);
    });
    const jobs = await new Promise((resolve) => {
      const reading = database.transaction("jobs").objectStore("jobs").index("by time").getAll();
      reading.onsuccess = () => resolve(reading.result);
    });
    database.close();
    const counts = () => page().querySelectorAll(".tile.completed").length;
    const before = counts();
    (await button("Delete")).click();
    await until(() => counts() === before - 1);
    localStorage.setItem("denoise.draft", JSON.stringify({ settings: { num_inference_steps: 400 } }));
    const loaded = new Promise((resolve) => frame.onload = resolve);
    frame.contentWindow.location.reload();
    await loaded;
    await write(await until("main textarea"), "a red heart");
    await generate();
    await until(".tile.in_progress");
    (await button("Cancel")).click();
    await until(() => !page().querySelector(".tile.in_progress"));
    const afterCancel = counts();
    const listed = await (await fetch("./bundled/files.json")).json();
    const transfer = new DataTransfer();
    for (const { path } of listed) {
      const blob = await (await fetch("./bundled/" + path)).blob();
      const file = new File([blob], path.split("/").at(-1));
      Object.defineProperty(file, "webkitRelativePath", { value: "toy/" + path });
      transfer.items.add(file);
    }
    (await button("Model")).click();
    await write(await until("#hub-id"), "garbage");
    (await button("How large")).click();
    const refused = await until(() => page().querySelector("dialog [role=status]")?.textContent);
    const folder = await until("#model-folder");
    Object.defineProperty(folder, "files", { value: [...listed].map((_, i) => transfer.files[i]) });
    folder.dispatchEvent(new Event("change", { bubbles: true }));
    const model = (await until(() => page().querySelector(".model")?.textContent === "toy" && page().querySelector("main textarea"))) && page().querySelector(".model").textContent;
    return { refused, report, jobs: jobs.map(({ request }) => request), model, kept: afterCancel - before };
  `,
      { limitMs: 240_000 },
    ) as {
      jobs: { taskType: string; images: string[]; loras: { path: string }[] }[];
      model: string;
      refused: string;
      report: string;
      kept: number;
    };
    assert.deepEqual(
      found.jobs.map(({ taskType, images, loras }) => [taskType, images.length, loras[0]?.path]),
      [["T2I", 0, undefined], ["TI2I", 1, undefined], ["T2I", 0, "ink.safetensors"]],
    );
    assert.equal(found.kept, -1, "one was deleted, and the cancelled one is none");
    assert.match(found.report, /^ink/);
    assert.match(found.refused, /^Cannot find garbage on the hub/);
    assert.equal(found.model, "toy");
  },
  true,
);

browserTest(
  "the playground without a server makes a video, plays it, has it after a reload, and changes it",
  "firefox",
  async () => {
    await using site = await openSite();
    const draft = { output: "video", settings: { num_inference_steps: 2 } };
    const { first, again, changed, tasks } = await site.run(
      "firefox",
      `${PAGE}
    localStorage.setItem("denoise.draft", JSON.stringify(${JSON.stringify(draft)}));
    const reload = async () => {
      const loaded = new Promise((resolve) => frame.onload = resolve);
      frame.contentWindow.location.reload();
      await loaded;
    };
    const played = async () => {
      const player = await until(() => {
        const found = frame.contentDocument?.querySelector("video[autoplay]");
        return found && found.currentTime > 0 && found;
      });
      const type = (await (await fetch(player.src)).blob()).type;
      return [player.videoWidth, player.videoHeight, Math.round(player.duration * 8), type];
    };
    await reload();
    await write(await until("main textarea"), "a red heart");
    await generate();
    const first = await played();
    await reload();
    const again = await played();
    const clip = await (await fetch((await until("video[autoplay]")).src)).blob();
    const dropped = new frame.contentWindow.DataTransfer();
    dropped.items.add(new File([clip], "clip.mp4", { type: "video/mp4" }));
    const options = { dataTransfer: dropped, bubbles: true, cancelable: true };
    (await until("main textarea")).dispatchEvent(new frame.contentWindow.DragEvent("drop", options));
    await write(await until("main textarea"), "a blue star");
    const before = (await until("video[autoplay]")).src;
    await until("button[aria-label^=Remove]");
    await generate();
    await until(() => (frame.contentDocument?.querySelector("video[autoplay]")?.src ?? before) !== before);
    const changed = await played();
    const database = await new Promise((resolve) => {
      const opening = indexedDB.open("denoise");
      opening.onsuccess = () => resolve(opening.result);
    });
    const jobs = await new Promise((resolve) => {
      const reading = database.transaction("jobs").objectStore("jobs").index("by time").getAll();
      reading.onsuccess = () => resolve(reading.result);
    });
    database.close();
    return { first, again, changed, tasks: jobs.map(({ request }) => request.taskType) };
  `,
      { limitMs: 400_000 },
    ) as Record<"first" | "again" | "changed", unknown[]> & { tasks: string[] };
    assert.deepEqual(first, [96, 96, 9, "video/mp4"]);
    assert.deepEqual(again, first);
    assert.deepEqual(changed.slice(0, 2), [96, 96]);
    assert.deepEqual(tasks, ["T2V", "V2V"]);
  },
  true,
);

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `two pages of ${browser} load a model at once: each file is fetched once, and both draw the same`,
    browser,
    async () => {
      await using site = await openSite();
      const { pictures } = await site.run(
        browser,
        `
      const page = async () => {
        const frame = document.createElement("iframe");
        frame.srcdoc = \`<base href="${site.url}"><script type="module">
          import { loadModel } from "./denoise.js";
          const model = await loadModel();
          const [{ data }] = await model.generate({ prompt: "a red heart", seed: 7, numInferenceSteps: 2 });
          await model.close();
          parent.postMessage(Array.from(data).join(), "*");
        <\\/script>\`;
        document.body.append(frame);
        const { promise, resolve } = Promise.withResolvers();
        addEventListener("message", ({ source, data }) => source === frame.contentWindow && resolve(data));
        return await promise;
      };
      return { pictures: await Promise.all([page(), page()]) };
    `,
        { limitMs: 400_000 },
      ) as { pictures: [string, string] };
      assert.equal(pictures[0], pictures[1]);
      assert.equal(pictures[0].split(",").length, 96 * 96 * 3);
      const fetched = site.requests.filter((path) => path.endsWith(".safetensors"));
      assert.equal(new Set(fetched).size, fetched.length, String(fetched));
    },
    true,
  );
}
