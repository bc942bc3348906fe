// The Vercel AI SDK and pi-ai as clients of the gateway: a call of a tool, its result, the answer, and a second turn.
// One line of JSON for each client: {"client", "text", "second"} or {"client", "error"}.
import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as pi from "@mariozechner/pi-ai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [url, model] = process.argv.slice(2);
const apiKey = "client-key";
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const MODELS = {
  "AI SDK, OpenAI Responses": openai.responses(model),
  "AI SDK, OpenAI Chat": openai.chat(model),
  "AI SDK, OpenAI-compatible": createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey })(model),
  "AI SDK, Anthropic": createAnthropic({ baseURL: `${url}/v1`, apiKey })(model),
  "AI SDK, Google": createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })(model),
  "AI SDK, Bedrock": createAmazonBedrock({ baseURL: url, region: "us-east-1", apiKey })(model),
};
const tools = {
  weather: tool({
    description: "The weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `sunny in ${city}`,
  }),
};

async function report(client, work) {
  try {
    console.log(JSON.stringify({ client, ...(await work()) }));
  } catch (error) {
    console.log(JSON.stringify({ client, error: `${error}`.slice(0, 800) }));
  }
}

for (const [client, chosen] of Object.entries(MODELS)) {
  const common = { model: chosen, tools, stopWhen: stepCountIs(5), maxRetries: 0, onError: () => {} };
  await report(client, async () => {
    const messages = [{ role: "user", content: "How is the weather in Paris?" }];
    const stream = streamText({ ...common, messages });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    const added = (await stream.steps).flatMap((step) => step.response.messages);
    messages.push(...added, { role: "user", content: "And what did the tool say?" });
    const second = await generateText({ ...common, messages });
    return { text, second: second.text };
  });
}

const APIS = { "openai-completions": "/v1", "openai-responses": "/v1", "anthropic-messages": "", "google-generative-ai": "/v1beta" };
for (const [api, path] of Object.entries(APIS)) {
  await report(`pi-ai, ${api}`, async () => {
    const chosen = {
      id: model, name: model, api, provider: "gateway", baseUrl: url + path, reasoning: false, input: ["text"],
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 4000,
    };
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const context = {
      messages: [{ role: "user", content: "How is the weather in Paris?", timestamp: Date.now() }],
      tools: [{ name: "weather", description: "The weather of a city.", parameters }],
    };
    const said = [];
    for (let turn = 0; turn < 3; turn++) {
      const stream = pi.stream(chosen, context, { apiKey });
      for await (const _ of stream);
      const answer = await stream.result();
      if (answer.errorMessage) throw new Error(answer.errorMessage);
      context.messages.push(answer);
      for (const call of answer.content.filter((block) => block.type === "toolCall")) {
        const content = [{ type: "text", text: `sunny in ${call.arguments.city}` }];
        context.messages.push({
          role: "toolResult", toolCallId: call.id, toolName: call.name, content, isError: false, timestamp: Date.now(),
        });
      }
      said.push(answer.content.filter((block) => block.type === "text").map((block) => block.text).join(""));
      if (turn === 1) {
        context.messages.push({ role: "user", content: "And what did the tool say?", timestamp: Date.now() });
      }
    }
    return { text: said[0] + said[1], second: said[2] };
  });
}
