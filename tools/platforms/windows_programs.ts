/**
 * What the launcher of Windows fetches Deno with, where Wine has none of it: `curl`, `certutil`, `tar` and `npm`. Started as
 * `PROGRAM FOLDER ARGUMENTS…`; the folder holds what the network would give.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { unzipSync } from "fflate";

const [program, folder, ...args] = Deno.args;

function valueOf(flag: string): string {
  const at = args.indexOf(flag);
  if (at < 0) throw new Error(`Cannot run ${program}: ${flag} is missing in ${args.join(" ")}`);
  return args[at + 1]!;
}

switch (program) {
  case "curl": {
    const { protocol, pathname } = new URL(args.at(-1)!);
    if (protocol !== "https:" || valueOf("--proto") !== "=https") Deno.exit(1);
    copyFileSync(`${folder}/${pathname.slice(pathname.lastIndexOf("/") + 1)}`, valueOf("-o"));
    break;
  }
  case "certutil": {
    const file = valueOf("-hashfile");
    if (args.at(-1) !== "SHA256") Deno.exit(1);
    const digest = createHash("sha256").update(readFileSync(file)).digest("hex");
    console.log(
      `SHA256 hash of ${file}:\r\n${digest}\r\nCertUtil: -hashfile command completed successfully.`,
    );
    break;
  }
  case "tar": {
    const name = args.at(-1)!;
    const files = unzipSync(readFileSync(valueOf("-xf")), { filter: (file) => file.name === name });
    writeFileSync(`${valueOf("-C")}/${name}`, files[name]!);
    break;
  }
  case "npm": {
    const place = `${valueOf("--prefix")}/node_modules/@deno/win32-x64`;
    mkdirSync(place, { recursive: true });
    copyFileSync(`${folder}/npm.exe`, `${place}/deno.exe`);
    break;
  }
  default:
    throw new Error(`Cannot run ${program}: there is no such stand-in`);
}
