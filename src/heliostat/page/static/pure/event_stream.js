// A stream of events, as text/event-stream gives it in pieces.

/** @typedef {{id: string, data: string}} Message */

/** What comes after a piece of the text: whole messages, and the rest that is not whole yet. @param {string} text @returns {{messages: Message[], rest: string}} */
export function messagesOf(text) {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  /** @type {Message[]} */
  const messages = [];
  for (const block of blocks) {
    /** @type {Message} */
    const message = { id: "", data: "" };
    for (const line of block.split("\n")) {
      const field = /^(id|data): ?(.*)$/.exec(line);
      if (field) message[/** @type {"id" | "data"} */ (field[1])] += field[2];
    }
    if (message.data) messages.push(message);
  }
  return { messages, rest };
}
