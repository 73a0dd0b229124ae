// Reads what a request asks for from its body while the body arrives, in one pass, without a copy of the body and with
// bounded state.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "metrics/universal_hash.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/opening.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::metrics::wire {

/// Reads a request's body piece by piece. One thread uses it. A call costs time linear in its piece, at most about 2 ns
/// a byte. Any split of a body gives the same facts.
class RequestInspector {
 public:
  /// `api` is api_of(method, path). Some paths stream by themselves, whatever the body says. With `conversation_key`
  /// the facts tell the conversation; with `prefix_key` take_prefix() gives the anchors of the prompt, which takes 0.4
  /// ns a byte more (`prefix_keys` of bench_micro). The keys must outlive the inspector.
  RequestInspector(Api api, std::string_view method, std::string_view path,
                   const ConversationKey* conversation_key = nullptr,
                   const UniversalKey* prefix_key = nullptr);
  ~RequestInspector();
  RequestInspector(RequestInspector&&) noexcept;
  RequestInspector& operator=(RequestInspector&&) noexcept;

  void feed(std::span<const char> piece);
  /// Returns the facts. Call it once, when the body has ended.
  RequestFacts finish();
  /// Returns the anchors of the prompt (request/prefix_chain.hpp): hashes, under the prefix key, of its beginnings and
  /// of all that a template renders before them or that keeps caches apart: model, adapter, salt, tools, template,
  /// system text outside messages. Only prompts with equal `seed` share keys. Call it once, after finish(). Null
  /// without a prefix key, and where there is not one prompt that is known: the body is no whole JSON or has a list of
  /// prompts, the engine keeps context, or token ids are mixed with text.
  std::shared_ptr<const PromptPrefix> take_prefix(std::uint64_t seed = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::wire
