/** A thread that converts elements, one message after the other. */
import { type Conversion, convert } from "./convert.ts";

export type ConversionAnswer =
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly problem: string };

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<Conversion>) => void) | null;
  postMessage(answer: ConversionAnswer, transfer: Transferable[]): void;
};

scope.onmessage = ({ data }) => {
  try {
    const bytes = convert(data);
    scope.postMessage({ bytes }, [bytes.buffer]);
  } catch (error) {
    scope.postMessage({ problem: (error as Error).message }, []);
  }
};
