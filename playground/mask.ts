/** Strokes of a brush, and the image that they make. */

/** A stroke; places and brush are shares of the image's width and height. */
export interface Stroke {
  points: [number, number][];
  /** Width of the brush, as a share of the image's width. */
  brush: number;
  erases: boolean;
}

/** Draws strokes over a clean canvas. */
export function drawMask(
  context: CanvasRenderingContext2D,
  strokes: readonly Stroke[],
  colour = "#ff4d6d",
): void {
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = colour;
  for (const { points, brush, erases } of strokes) {
    context.globalCompositeOperation = erases ? "destination-out" : "source-over";
    context.lineWidth = brush * width;
    context.beginPath();
    const [first = [0, 0]] = points;
    context.moveTo(first[0] * width, first[1] * height);
    // A stroke of one point is a spot.
    for (const [x, y] of points) context.lineTo(x * width + 0.01, y * height);
    context.stroke();
  }
  context.globalCompositeOperation = "source-over";
}

/**
 * The mask of an image as a file: white where the image is redrawn, black elsewhere.
 *
 * @returns null where nothing was painted
 */
export async function maskBlob(
  { width, height }: { width: number; height: number },
  strokes: readonly Stroke[],
): Promise<Blob | null> {
  if (strokes.length === 0) return null;
  const sheet = document.createElement("canvas");
  Object.assign(sheet, { width, height });
  const context = sheet.getContext("2d")!;
  drawMask(context, strokes, "#fff");
  context.globalCompositeOperation = "destination-over";
  context.fillRect(0, 0, width, height);
  return await new Promise((resolve) => sheet.toBlob(resolve, "image/png"));
}
