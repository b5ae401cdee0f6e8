/** Which ControlNets and IP-Adapters of the server's machine the model is opened with. */

import { useState } from "preact/hooks";
import { callJson } from "./api.ts";
import { Switch } from "./controls.ts";
import { h, type VNode } from "./elements.ts";
import type { Model } from "./model.ts";
import { connect } from "./session.ts";
import { t } from "./texts.ts";
import { attempt } from "./view.ts";

const KINDS = [
  ["control_nets", "max_control_nets", "controlNet"],
  ["ip_adapters", "max_ip_adapters", "ipAdapterName"],
] as const;

type Kind = (typeof KINDS)[number][0];

export function SteeringPanel({ model }: { model: Model }): VNode {
  // What was chosen while the model is opened again.
  const [wanted, setWanted] = useState<{ kind: Kind; ids: string[] }>();
  const isBusy = wanted !== undefined;
  const use = async (kind: Kind, ids: string[]) => {
    setWanted({ kind, ids });
    await attempt(async () => {
      await callJson(`v1/models/${encodeURIComponent(model.id)}/parts`, {
        method: "POST",
        body: JSON.stringify({ [kind]: ids }),
        headers: { "content-type": "application/json" },
      });
      await connect();
    });
    setWanted(undefined);
  };
  return h(
    "div",
    { class: "group" },
    h("p", { class: "hint", role: "status" }, t(isBusy ? "partsOpening" : "partsHow")),
    ...KINDS.map(([kind, max, word]) => {
      const used = model.parts[kind].filter(({ in_use }) => in_use).map(({ id }) => id);
      const most = model.parts[max];
      return model.parts[kind].length === 0 ? null : h(
        "fieldset",
        { class: "group", disabled: isBusy },
        h("legend", { class: "name" }, t(word)),
        ...model.parts[kind].map(({ id, in_use }) =>
          h(Switch, {
            key: id,
            name: id,
            value: wanted?.kind === kind ? wanted.ids.includes(id) : in_use,
            onChange: (isOn) =>
              // One too many takes the place of the first.
              void use(kind, isOn ? [...used, id].slice(-most) : used.filter((one) => one !== id)),
          })
        ),
      );
    }),
  );
}
