// The service as a part of a server of your own, under /draw/: `deno run -A mount.mjs 8000`.
import process from "node:process";
import { createHandler } from "denoise/server";

const [, , port = "8000"] = process.argv;
const handler = await createHandler({
  outputPath: "",
  publicUrl: `http://127.0.0.1:${port}/draw`,
});
const server = Deno.serve({ hostname: "127.0.0.1", port: Number(port) }, (request, info) => {
  const url = new URL(request.url);
  if (!url.pathname.startsWith("/draw/")) return new Response("My own page\n");
  url.pathname = url.pathname.slice("/draw".length);
  return handler(new Request(url, request), { remoteAddress: info.remoteAddr.hostname });
});
await handler.ready;
console.log(`Draw at ${new URL("/draw/", `http://127.0.0.1:${server.addr.port}`)}`);
Deno.addSignalListener("SIGINT", async () => {
  await server.shutdown();
  await handler.close();
});
