/** The playground without a server, worked on by a script of the tab around it. */

/** Opens the page in a frame, as large as a screen, with a draft that is drawn quickly. */
export const PAGE = `
  localStorage.setItem("denoise.draft", JSON.stringify({ settings: { num_inference_steps: 2 } }));
  const frame = document.createElement("iframe");
  frame.style = "width: 1280px; height: 800px";
  const opened = new Promise((resolve) => frame.onload = resolve);
  frame.src = "index.html";
  document.body.append(frame);
  await opened;
  const until = async (what) => {
    const find = typeof what === "function" ? what : () => frame.contentDocument?.querySelector(what);
    for (let wait = 0; wait < 10_000; wait++) {
      const found = find();
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error("Cannot find " + what + " in " + frame.contentDocument.body.innerText);
  };
  const write = (element, value) => {
    element.value = value;
    element.dispatchEvent(new Event("input", { bubbles: true }));
    return new Promise((resolve) => setTimeout(resolve, 100));
  };
  const generate = async () => (await until("button.generate:not(:disabled)")).click();
  /** Sides and bytes of the picture that is shown. */
  const shown = async (besides) => {
    const image = await until(() => {
      const found = frame.contentDocument?.querySelector("img.result");
      return found && found.src !== besides && found.src.startsWith("blob:") && found;
    });
    await image.decode();
    const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
    return { sides: [image.naturalWidth, image.naturalHeight], src: image.src, bytes: bytes.join() };
  };
`;
