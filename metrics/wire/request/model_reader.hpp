// Reads nothing of a request but which model it asks for: what routing needs while weir is bypassed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::wire {

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
