// Prints what the runner tells as languages.py reads it.
export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const failure = data.details?.error;
    const status = data.skip === undefined ? type.slice("test:".length) : "skip";
    const cause = failure?.cause ?? failure;
    yield `== ${status} ${data.name}\n${cause?.stack ?? cause ?? data.skip ?? ""}\n`;
  }
}
