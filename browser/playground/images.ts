/** Images of a tab are encoded where they are; stands in for `media/isolated/images.ts`. */
export { encodeImage as encodeOwnImage } from "../../media/encode.ts";
