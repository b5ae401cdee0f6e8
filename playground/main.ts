/** Draws the page, and keeps it up to date. */

import { h, render } from "preact";
import { App } from "./app.ts";
import { watch } from "./jobs.ts";

render(h(App, {}), document.body);
void watch();
