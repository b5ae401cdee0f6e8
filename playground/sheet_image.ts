/** A sheet as one image, with its labels. */

import type { Job } from "./jobs.ts";
import { blobOf } from "./media.ts";
import { axisName } from "./sheet_axes.ts";
import type { Sheet } from "./sheets.ts";
import { t } from "./texts.ts";

/** Longest side of the image, which every browser draws, in pixels. */
const MAX_SIDE = 8192;

export async function sheetImage(
  { axes, columns, rows }: Sheet,
  list: readonly (Job | null | undefined)[],
): Promise<Blob> {
  const images = await Promise.all(list.map(async (job) => {
    const [result] = job?.status === "completed" ? job.outputs ?? [] : [];
    return result ? await createImageBitmap(await blobOf(result)) : undefined;
  }));
  const most = (side: "width" | "height") => Math.max(...images.map((image) => image?.[side] ?? 1));
  const label = Math.max(20, Math.min(64, most("height") / 12));
  const side = 7 * label;
  const scale = Math.min(
    1,
    (MAX_SIDE - side) / (columns.length * most("width")),
    (MAX_SIDE - 2 * label) / (rows.length * most("height")),
  );
  const [width, height] = [most("width") * scale, most("height") * scale].map(Math.ceil) as [
    number,
    number,
  ];
  const sheet = document.createElement("canvas");
  sheet.width = side + columns.length * width;
  sheet.height = 2 * label + rows.length * height;
  const context = sheet.getContext("2d")!;
  context.fillStyle = "#fff";
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = "#000";
  context.font = `${label * 0.6}px sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  const write = (text: string, x: number, y: number, room: number) => {
    while (text.length > 1 && context.measureText(text).width > room) {
      text = `${text.slice(0, -2)}…`;
    }
    context.fillText(text, x, y);
  };
  columns.forEach((value, x) =>
    write(`${axisName(axes[0])}: ${value}`, side + (x + 0.5) * width, label, width - label / 2)
  );
  rows.forEach((value, y) => {
    if (value === "") return;
    write(
      axisName(axes[1]),
      side / 2,
      2 * label + (y + 0.5) * height - label * 0.4,
      side - label / 2,
    );
    write(value, side / 2, 2 * label + (y + 0.5) * height + label * 0.4, side - label / 2);
  });
  images.forEach((image, i) => {
    const x = side + (i % columns.length) * width;
    const y = 2 * label + Math.floor(i / columns.length) * height;
    if (image) context.drawImage(image, x, y, image.width * scale, image.height * scale);
    image?.close();
  });
  const { promise, resolve, reject } = Promise.withResolvers<Blob>();
  sheet.toBlob((blob) => blob ? resolve(blob) : reject(new Error(t("sheetTooLarge"))), "image/png");
  return await promise;
}
