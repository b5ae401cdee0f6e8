/** What Wine does otherwise than Windows: unlocking twice, which Rust's library does, is another error there. */
const IS_WINES = /os error 33/;
for (const name of ["unlock", "unlockSync"] as const) {
  const own = Deno.FsFile.prototype[name] as () => unknown;
  const forgive = (error: unknown) => {
    if (!IS_WINES.test(String(error))) throw error;
  };
  Deno.FsFile.prototype[name] = function (this: Deno.FsFile) {
    try {
      const result = own.call(this);
      return result instanceof Promise ? result.catch(forgive) : result;
    } catch (error) {
      return forgive(error);
    }
  } as never;
}
