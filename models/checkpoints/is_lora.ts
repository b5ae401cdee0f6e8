/** Whether keys are a LoRA's. */
export function isLora(names: Iterable<string>): boolean {
  let [changes, all] = [0, 0];
  for (const name of names) {
    all++;
    if (/(?:^|[._])(?:lora|hada|lokr)[._]|\.dora_scale$|\.diff(?:_b)?$/i.test(name)) changes++;
  }
  return changes > all / 4;
}
