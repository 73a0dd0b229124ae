// Makes requests for the inspector's tests: an API by a short name, its path, and what the inspector says of a body
// sent there.
#pragma once

#include <string_view>

#include "metrics/wire/request/inspector.hpp"

namespace weir::metrics::wire {

inline constexpr auto chat = Api::openai_chat;
inline constexpr auto completions = Api::openai_completions;
inline constexpr auto responses = Api::openai_responses;
inline constexpr auto anthropic = Api::anthropic_messages;
inline constexpr auto tgi = Api::tgi_generate;
inline constexpr auto sglang = Api::sglang_generate;
inline constexpr auto llamacpp = Api::llamacpp_completion;
inline constexpr auto kobold = Api::kobold_generate;
inline constexpr auto ollama_chat = Api::ollama_chat;
inline constexpr auto ollama_generate = Api::ollama_generate;

inline std::string_view path_of(Api api) {
  switch (api) {
    case Api::openai_chat:
      return "/v1/chat/completions";
    case Api::openai_completions:
      return "/v1/completions";
    case Api::openai_responses:
      return "/v1/responses";
    case Api::anthropic_messages:
      return "/v1/messages";
    case Api::tgi_generate:
    case Api::sglang_generate:
      return "/generate";
    case Api::llamacpp_completion:
      return "/completion";
    case Api::kobold_generate:
      return "/api/v1/generate";
    case Api::ollama_chat:
      return "/api/chat";
    case Api::ollama_generate:
      return "/api/generate";
    case Api::openai_embeddings:
      return "/v1/embeddings";
    case Api::rerank:
      return "/v1/rerank";
    case Api::score:
      return "/v1/score";
    case Api::other:
      return "/v1/moderations";
  }
  return "";
}

inline const ConversationKey conversation_key({5, 6});

inline RequestInspector inspector_at(std::string_view path) {
  return {api_of("POST", path), "POST", path, &conversation_key};
}

inline RequestFacts facts_at(std::string_view path, std::string_view body) {
  RequestInspector inspector = inspector_at(path);
  inspector.feed(body);
  return inspector.finish();
}

inline RequestFacts facts_of(Api api, std::string_view body) { return facts_at(path_of(api), body); }

}  // namespace weir::metrics::wire
