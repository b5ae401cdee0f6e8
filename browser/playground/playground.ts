/** The playground without a server: the page, and in the tab what answers it. */
import { host } from "../../playground/api.ts";
import { Corner, loadChosen } from "./model_panel.ts";
import { service } from "./tab.ts";

host.current = { answer: service.fetch, Corner };
addEventListener("beforeunload", (event) => service.isBusy && event.preventDefault());
void loadChosen();
await import("../../playground/main.ts");
