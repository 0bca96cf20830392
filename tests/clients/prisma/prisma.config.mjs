// `prisma db pull` by the engine that is in Prisma's package, over node-postgres: the other engine is
// a program that its package downloads.
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { defineConfig } from "prisma/config";

// The adapter knows neither "char" nor name, which introspection reads: to it, they are text.
class Client extends pg.Client {
  constructor(...words) {
    super(...words);
    this.connection.prependListener("rowDescription", ({ fields }) => {
      for (const field of fields) {
        if (field.dataTypeID === 18 || field.dataTypeID === 19) field.dataTypeID = 25;
      }
    });
  }
}

export default defineConfig({
  experimental: { adapter: true },
  engine: "js",
  schema: "schema.prisma",
  adapter: async () => new PrismaPg({ Client, allowExitOnIdle: true }, { schema: process.env.PULLED_SCHEMA }),
});
