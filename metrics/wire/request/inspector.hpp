// A request's body as facts, read while it arrives; the model alone, where that suffices.
//
// Reads what a request asks for from its body while the body arrives, in one pass, without a copy of the body and with
// bounded state.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "metrics/hash.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prefix_chain.hpp"
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
                   const ConversationKey* conversation_key = nullptr, const UniversalKey* prefix_key = nullptr);
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

// Reads nothing of a request but which model it asks for: what routing needs while weir is bypassed.

/// Reads a request's body piece by piece, whatever its route. One thread uses it. Any split of a body gives the same
/// model.
class ModelReader {
 public:
  ModelReader();
  ~ModelReader();
  ModelReader(const ModelReader&) = delete;
  ModelReader& operator=(const ModelReader&) = delete;

  void feed(std::span<const char> piece);
  /// The member `model` of the outermost object, cut at 128 bytes; the last of several. "" if there is none, or if the
  /// body is no JSON object.
  std::string model() const;
  /// Returns the same of a document of which only the beginning has come; "" until the member's text is whole.
  std::string model_so_far() const;
  /// True if the outermost object has two members of that name, without regard to case.
  bool is_twice() const;
  /// True if the body was one JSON object.
  bool whole() const;

 private:
  struct State;
  std::unique_ptr<State> state_;  ///< Made with the first piece.
};

/// Returns the facts of a request of which nothing else is read: its API counts as another one, its prompt as unknown.
RequestFacts facts_of_unread(std::string_view method, const ModelReader& read);

}  // namespace weir::metrics::wire
