/** What a file is that is imported as text. */
declare const text: string;
export default text;
