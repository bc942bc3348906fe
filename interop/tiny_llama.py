"""Writes a language model that knows nothing: two small layers of chance, in the file format of llama.cpp.

`python tiny_llama.py FILE`, in the environment that has the `gguf` package. Always the same file. Left alone, it says
words; byte tokens are there so that a grammar can make it say anything.
"""

import sys

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, INNER, CONTEXT = 2, 64, 4, 128, 512
TEXTS = (
    "sun",
    "rain",
    "wind",
    "cloud",
    "snow",
    "light",
    "storm",
    "calm",
    "warm",
    "cold",
    "hill",
    "river",
    "lake",
    "sea",
)
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def vocabulary(out: gguf.GGUFWriter) -> int:
    kinds = gguf.TokenType
    tokens = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    tokens += [(f"▁{word}", kinds.NORMAL) for word in TEXTS]
    out.add_tokenizer_model("llama")
    out.add_token_list([text for text, _ in tokens])
    out.add_token_scores([-float(at) for at in range(len(tokens))])
    out.add_token_types([kind for _, kind in tokens])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_chat_template(TEMPLATE)
    return len(tokens)


def weights(size: int) -> dict[str, np.ndarray]:
    dice = np.random.default_rng(7)

    def chance(*shape: int) -> np.ndarray:
        return dice.normal(0, 0.3, shape).astype(np.float32)

    one = np.ones(WIDTH, np.float32)
    found = {"token_embd.weight": chance(size, WIDTH), "output_norm.weight": one, "output.weight": chance(size, WIDTH)}
    found["output.weight"][: size - len(TEXTS)] *= 0.01  # words are likelier than bytes and than the end
    for at in range(LAYERS):
        found |= {f"blk.{at}.{name}_norm.weight": one for name in ("attn", "ffn")}
        found |= {f"blk.{at}.attn_{name}.weight": chance(WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        found |= {f"blk.{at}.ffn_{name}.weight": chance(INNER, WIDTH) for name in ("gate", "up")}
        found[f"blk.{at}.ffn_down.weight"] = chance(WIDTH, INNER)
    return found


def main() -> None:
    out = gguf.GGUFWriter(sys.argv[1], "llama")
    out.add_name("chance")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    size = vocabulary(out)
    out.add_vocab_size(size)
    for name, tensor in weights(size).items():
        out.add_tensor(name, tensor)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
