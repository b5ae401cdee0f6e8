/** Views whose modules are fetched when they are first shown. */

import { useEffect, useState } from "preact/hooks";
import { h, type VNode } from "./elements.ts";
import { t } from "./texts.ts";
import { tell } from "./view.ts";

/** A view that is empty until its module has come. */
export function lazy<Properties>(
  load: () => Promise<(properties: Properties) => VNode | null>,
): (properties: Properties) => VNode | null {
  let view: ((properties: Properties) => VNode | null) | undefined;
  return (properties) => {
    const [, redraw] = useState({});
    useEffect(() => {
      if (view) return;
      load().then((found) => {
        view = found;
        redraw({});
      }, () => tell(t("pageChanged")));
    }, []);
    return view ? h(view, properties as Properties & { key?: string }) : null;
  };
}
