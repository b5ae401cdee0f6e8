import assert from "node:assert/strict";
import { freeHostBytes, usableHostBytes } from "./host_memory.ts";

const MACHINE = { available: 16e9, free: 12e9 };

/** Free bytes on a machine with these files. */
function freeWith(files: Readonly<Record<string, string>>): number {
  return freeHostBytes(MACHINE, (path) => files[path]);
}

Deno.test("freeHostBytes() is what the machine has where no cgroup has a limit", () => {
  assert.equal(freeWith({}), 16e9);
  const unlimited = {
    "/proc/self/cgroup": "0::/user.slice\n",
    "/sys/fs/cgroup/user.slice/memory.max": "max\n",
    "/sys/fs/cgroup/user.slice/memory.current": "1000000\n",
  };
  assert.equal(freeWith(unlimited), 16e9);
});

Deno.test("freeHostBytes() keeps to the tightest limit of version 2, file caches aside", () => {
  const files = {
    "/proc/self/cgroup": "0::/service/job\n",
    "/sys/fs/cgroup/service/memory.max": "6000000000\n",
    "/sys/fs/cgroup/service/memory.current": "3000000000\n",
    "/sys/fs/cgroup/service/memory.stat": "anon 2000000000\ninactive_file 1000000000\n",
    "/sys/fs/cgroup/service/job/memory.max": "8000000000\n",
    "/sys/fs/cgroup/service/job/memory.current": "1000000000\n",
  };
  assert.equal(freeWith(files), 4e9);
});

Deno.test("freeHostBytes() reads version 1, in a container whose group is the root too", () => {
  const files = {
    "/proc/self/cgroup": "4:memory:/docker/0123\n3:cpuset:/docker/0123\n0::/docker/0123\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000000\n",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": "700000000\n",
    "/sys/fs/cgroup/memory/memory.stat": "inactive_file 5\ntotal_inactive_file 200000000\n",
  };
  assert.equal(freeWith(files), 1.5e9);
  const unlimited = {
    ...files,
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
  };
  assert.equal(freeWith(unlimited), 16e9);
});

Deno.test("freeHostBytes() is never negative", () => {
  const files = {
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": "1000",
    "/sys/fs/cgroup/memory.current": "2000",
  };
  assert.equal(freeWith(files), 0);
});

Deno.test("freeHostBytes() is what is free where the system does not say how much is available", () => {
  assert.equal(freeHostBytes({ available: 0, free: 12e9 }, () => undefined), 12e9);
});

Deno.test("usableHostBytes() leaves room for what is no tensor", () => {
  assert.deepEqual([20e9, 4e9, 0.6e9, 0].map(usableHostBytes), [18e9, 4e9 - 512e6, 0.3e9, 0]);
});
