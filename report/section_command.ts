/** The command by which the program runs one section of a report; it is for `denoise report` and for nobody else. */
export const SECTION_COMMAND = "report-section";

/** Begins every line that such a process writes, because drivers print too. */
export const LINE_MARK = "denoise-report ";
