/**
 * The machine that a pickle is a program of, for the operations that PyTorch writes. It makes plain values and calls
 * nothing. Source: CPython's `pickletools`, protocols 2 to 5.
 */
import { PickleMap, type PickleValue } from "./values.ts";

/** What becomes of the few operations that mean more than plain values. */
export interface PickleHost {
  /** A name that the pickle refers to; refuses all that are not known. */
  global(module: string, name: string): PickleValue;
  /** What a call of `callee` would give. */
  call(callee: PickleValue, args: PickleValue[]): PickleValue;
  /** What `state` makes of an object. */
  build(object: PickleValue, state: PickleValue): void;
  /** What lies outside of the pickle. */
  persistent(id: PickleValue): PickleValue;
}

/** Operations of a pickle. Those of whole training states have some hundred thousands. */
const MAX_OPERATIONS = 4_000_000;
/** Bytes of an integer. */
const MAX_INTEGER_BYTES = 64;
/** Bytes of a line of text, as module and name of a class are. */
const MAX_LINE_BYTES = 1024;

/** One pickle that begins at `start`; `end` is the byte after it. Throws `SyntaxError` with the end of a sentence. */
export function unpickle(
  bytes: Uint8Array,
  start: number,
  host: PickleHost,
): { readonly value: PickleValue; readonly end: number } {
  const machine = new Machine(bytes, start, host);
  for (let i = 0; i < MAX_OPERATIONS; i++) {
    if (machine.step()) return { value: machine.pop(), end: machine.place };
  }
  throw new SyntaxError(`its pickle has more than ${MAX_OPERATIONS} operations`);
}

class Machine {
  place: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #host: PickleHost;
  readonly #stack: PickleValue[] = [];
  readonly #marks: number[] = [];
  readonly #memo = new Map<number, PickleValue>();

  constructor(bytes: Uint8Array, start: number, host: PickleHost) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.place = start;
    this.#host = host;
  }

  /** Runs one operation; true when it was the last. */
  step(): boolean {
    const code = this.#take(1)[0]!;
    switch (code) {
      case 0x80: // PROTO
        this.#checkProtocol(this.#take(1)[0]!);
        return false;
      case 0x95: // FRAME
        this.#take(8);
        return false;
      case 0x2e: // STOP
        return true;
      case 0x28: // MARK
        this.#marks.push(this.#stack.length);
        return false;
      case 0x30: // POP
        this.pop();
        return false;
      case 0x31: // POP_MARK
        this.#popMark();
        return false;
      case 0x32: // DUP
        return this.#push(this.#top());
      case 0x4e: // NONE
        return this.#push(null);
      case 0x88: // NEWTRUE
      case 0x89: // NEWFALSE
        return this.#push(code === 0x88);
      case 0x4b: // BININT1
      case 0x4d: // BININT2
        return this.#push(this.#unsigned(code === 0x4b ? 1 : 2));
      case 0x4a: // BININT
        return this.#push(this.#unsigned(4) | 0);
      case 0x8a: // LONG1
      case 0x8b: // LONG4
        return this.#push(this.#integer(this.#unsigned(code === 0x8a ? 1 : 4)));
      case 0x47: // BINFLOAT
        this.#take(8);
        return this.#push(this.#view.getFloat64(this.place - 8, false));
      case 0x8c: // SHORT_BINUNICODE
      case 0x58: // BINUNICODE
      case 0x8d: // BINUNICODE8
        return this.#push(this.#text(code === 0x8c ? 1 : code === 0x58 ? 4 : 8));
      case 0x55: // SHORT_BINSTRING
      case 0x54: // BINSTRING
        return this.#push(this.#text(code === 0x55 ? 1 : 4));
      case 0x43: // SHORT_BINBYTES
      case 0x42: // BINBYTES
      case 0x8e: // BINBYTES8
      case 0x96: // BYTEARRAY8
        return this.#push(this.#take(this.#unsigned(code === 0x43 ? 1 : code === 0x42 ? 4 : 8)));
      case 0x5d: // EMPTY_LIST
      case 0x29: // EMPTY_TUPLE
      case 0x8f: // EMPTY_SET
        return this.#push([]);
      case 0x7d: // EMPTY_DICT
        return this.#push(new PickleMap());
      case 0x61: // APPEND
        this.#append([this.pop()]);
        return false;
      case 0x65: // APPENDS
      case 0x90: // ADDITEMS
        this.#append(this.#popMark());
        return false;
      case 0x6c: // LIST
      case 0x74: // TUPLE
      case 0x91: // FROZENSET
        return this.#push(this.#popMark());
      case 0x85: // TUPLE1
      case 0x86: // TUPLE2
      case 0x87: // TUPLE3
        return this.#push(this.#popLast(code - 0x84));
      case 0x64: { // DICT
        const items = this.#popMark();
        this.#push(new PickleMap());
        this.#setItems(items);
        return false;
      }
      case 0x73: // SETITEM
        this.#setItems(this.#popLast(2));
        return false;
      case 0x75: // SETITEMS
        this.#setItems(this.#popMark());
        return false;
      case 0x68: // BINGET
      case 0x6a: // LONG_BINGET
        return this.#push(this.#remembered(this.#unsigned(code === 0x68 ? 1 : 4)));
      case 0x71: // BINPUT
      case 0x72: // LONG_BINPUT
        this.#memo.set(this.#unsigned(code === 0x71 ? 1 : 4), this.#top());
        return false;
      case 0x94: // MEMOIZE
        this.#memo.set(this.#memo.size, this.#top());
        return false;
      case 0x63: // GLOBAL
        return this.#push(this.#host.global(this.#line(), this.#line()));
      case 0x93: { // STACK_GLOBAL
        const [module, name] = this.#popLast(2);
        if (typeof module !== "string" || typeof name !== "string") {
          throw new SyntaxError("its pickle refers to a name that is no text");
        }
        return this.#push(this.#host.global(module, name));
      }
      case 0x52: // REDUCE
      case 0x81: { // NEWOBJ
        const [callee, args] = this.#popLast(2);
        if (!Array.isArray(args)) throw new SyntaxError("its pickle calls with no tuple");
        return this.#push(this.#host.call(callee!, args));
      }
      case 0x62: { // BUILD
        const state = this.pop();
        this.#host.build(this.#top(), state);
        return false;
      }
      case 0x51: // BINPERSID
        return this.#push(this.#host.persistent(this.pop()));
      default:
        throw new SyntaxError(
          `its pickle has the operation 0x${code.toString(16).padStart(2, "0")} at byte ${
            this.place - 1
          }, which PyTorch does not write`,
        );
    }
  }

  pop(): PickleValue {
    return this.#popLast(1)[0]!;
  }

  #push(value: PickleValue): false {
    this.#stack.push(value);
    return false;
  }

  #top(): PickleValue {
    this.#checkDepth(1);
    return this.#stack.at(-1)!;
  }

  #popLast(count: number): PickleValue[] {
    this.#checkDepth(count);
    return this.#stack.splice(this.#stack.length - count);
  }

  #popMark(): PickleValue[] {
    const mark = this.#marks.pop();
    if (mark === undefined) throw new SyntaxError("its pickle closes what it has not opened");
    return this.#stack.splice(mark);
  }

  /** What an open mark lies under cannot be taken. */
  #checkDepth(count: number): void {
    if (this.#stack.length - count >= (this.#marks.at(-1) ?? 0)) return;
    throw new SyntaxError("its pickle takes what it has not made");
  }

  #append(values: readonly PickleValue[]): void {
    const list = this.#top();
    if (!Array.isArray(list)) throw new SyntaxError("its pickle appends to what is no list");
    for (const value of values) list.push(value);
  }

  #setItems(items: readonly PickleValue[]): void {
    const map = this.#top();
    if (!(map instanceof PickleMap) || items.length % 2 !== 0) {
      throw new SyntaxError("its pickle sets items of what is no dict");
    }
    for (let i = 0; i < items.length; i += 2) map.set(items[i]!, items[i + 1]!);
  }

  #remembered(index: number): PickleValue {
    const value = this.#memo.get(index);
    if (value === undefined) {
      throw new SyntaxError(`its pickle takes value ${index}, which it has not kept`);
    }
    return value;
  }

  #take(count: number): Uint8Array {
    const end = this.place + count;
    if (!(end <= this.#bytes.byteLength)) throw new SyntaxError("its pickle is cut off");
    const taken = this.#bytes.subarray(this.place, end);
    this.place = end;
    return taken;
  }

  #unsigned(size: 1 | 2 | 4 | 8): number {
    const bytes = this.#take(size);
    return bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
  }

  #integer(size: number): number | bigint {
    if (size > MAX_INTEGER_BYTES) {
      throw new SyntaxError(
        `its pickle has an integer of ${size} bytes, the limit is ${MAX_INTEGER_BYTES}`,
      );
    }
    const bytes = this.#take(size);
    const value = bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
    const signed = BigInt.asIntN(8 * size, value);
    return Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
  }

  #text(size: 1 | 4 | 8): string {
    return new TextDecoder().decode(this.#take(this.#unsigned(size)));
  }

  #line(): string {
    const end = this.#bytes.indexOf(0x0a, this.place);
    if (end === -1 || end - this.place > MAX_LINE_BYTES) {
      throw new SyntaxError("its pickle has a name without an end");
    }
    const line = new TextDecoder().decode(this.#take(end - this.place));
    this.place++;
    return line;
  }

  #checkProtocol(protocol: number): void {
    if (protocol <= 5) return;
    throw new SyntaxError(`its pickle has protocol ${protocol}, and 5 is the newest known one`);
  }
}
