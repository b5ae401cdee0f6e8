/** The key that a server asks for, typed once. */

import { useEffect, useRef } from "preact/hooks";
import { button, dialog, form, h2, input, label, p, type VNode } from "./elements.ts";
import { refreshSoon } from "./jobs.ts";
import { useKey } from "./session.ts";

/** The dialog. */
export function KeyDialog({ isWrong }: { isWrong: boolean }): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return dialog(
    {
      ref: box,
      class: "key-dialog",
      "aria-labelledby": "key-title",
      onCancel: (e) => e.preventDefault(),
    },
    form(
      {
        onSubmit: (event) => {
          event.preventDefault();
          void useKey(field.current?.value ?? "").then(refreshSoon);
        },
      },
      h2({ id: "key-title" }, "This server needs a key"),
      p(
        { class: "muted", role: "alert" },
        isWrong
          ? "The server does not accept this key."
          : "Ask the operator of the server for a key. This browser stores it.",
      ),
      label({ class: "unseen", for: "key" }, "Key"),
      input({ id: "key", ref: field, type: "password", autocomplete: "current-password" }),
      button({ type: "submit", class: "generate" }, "Use it"),
    ),
  );
}
