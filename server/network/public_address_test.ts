import assert from "node:assert/strict";
import { isPublicAddress } from "./public_address.ts";

Deno.test("isPublicAddress() takes addresses of the internet", () => {
  for (const address of ["8.8.8.8", "93.184.216.34", "223.255.255.1", "2606:4700::1111"]) {
    assert.ok(isPublicAddress(address), address);
  }
});

Deno.test("isPublicAddress() refuses what is local, reserved or no address", () => {
  const refused = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "fd00::1",
    "fe80::1",
    "ff02::1",
    "localhost",
    "",
  ];
  for (const address of refused) assert.ok(!isPublicAddress(address), address);
});
