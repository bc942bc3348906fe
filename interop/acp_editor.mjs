// An editor on the official TypeScript package of the Agent Client Protocol: starts our agent, prompts it, loads the session.
// node acp_editor.mjs FOLDER PROGRAM ARGUMENTS…; prints what it saw, as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk";

const [folder, program, ...rest] = process.argv.slice(2);

const agent = spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { updates: [], asked: [] };

const editor = acp
  .client({ name: "interop" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update);
  });

await editor.connectWith(stream, async (context) => {
  const call = (method, params) => context.request(method, params);
  const { agent: names } = acp.methods;
  seen.initialized = await call(names.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await call(names.session.new, { cwd: folder, mcpServers: [] });
  const text = "write the file";
  seen.first = await call(names.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  await call(names.session.setMode, { sessionId, modeId: "read-only" });
  const count = seen.updates.length;
  await call(names.session.close, { sessionId });
  await call(names.session.load, { sessionId, cwd: folder, mcpServers: [] });
  seen.replayed = seen.updates.slice(count);
  seen.listed = (await call(names.session.list, { cwd: folder })).sessions.map((one) => one.sessionId).includes(sessionId);
});
agent.stdin.end();
console.log(JSON.stringify(seen));
process.exit(0);
