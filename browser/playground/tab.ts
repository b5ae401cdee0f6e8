/** The service of this tab. */
import { TabService } from "./service.ts";

export const service: TabService = new TabService(new URL(".", location.href).pathname);
