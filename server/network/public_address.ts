/** Which network addresses belong to the public internet. */

import { BlockList, isIP } from "node:net";

/**
 * Networks that are not public: this machine, private ones, link-local (with the metadata services
 * of clouds), shared, documentation, benchmarks, multicast, reserved, and IPv6 forms that hide an
 * IPv4 address. Source: IANA's registries of special-purpose addresses.
 */
const SPECIAL: readonly (readonly [network: string, prefix: number, family: "ipv4" | "ipv6"])[] = [
  ["0.0.0.0", 8, "ipv4"],
  ["10.0.0.0", 8, "ipv4"],
  ["100.64.0.0", 10, "ipv4"],
  ["127.0.0.0", 8, "ipv4"],
  ["169.254.0.0", 16, "ipv4"],
  ["172.16.0.0", 12, "ipv4"],
  ["192.0.0.0", 24, "ipv4"],
  ["192.0.2.0", 24, "ipv4"],
  ["192.88.99.0", 24, "ipv4"],
  ["192.168.0.0", 16, "ipv4"],
  ["198.18.0.0", 15, "ipv4"],
  ["198.51.100.0", 24, "ipv4"],
  ["203.0.113.0", 24, "ipv4"],
  ["224.0.0.0", 3, "ipv4"],
  ["::", 96, "ipv6"],
  ["::ffff:0:0", 96, "ipv6"],
  ["64:ff9b::", 96, "ipv6"],
  ["64:ff9b:1::", 48, "ipv6"],
  ["100::", 64, "ipv6"],
  ["2001::", 23, "ipv6"],
  ["2001:db8::", 32, "ipv6"],
  ["2002::", 16, "ipv6"],
  ["3fff::", 20, "ipv6"],
  ["5f00::", 16, "ipv6"],
  ["fc00::", 7, "ipv6"],
  ["fe80::", 10, "ipv6"],
  ["fec0::", 10, "ipv6"],
  ["ff00::", 8, "ipv6"],
];

/** One list for each family: in a common one, an IPv6 network that maps IPv4 stands for all of that. */
const special = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const [network, prefix, family] of SPECIAL) special[family].addSubnet(network, prefix, family);

/** False for special addresses and for what is no address. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 0) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  return !special[family].check(address, family);
}
