// Reads which model a request names where its body is no plain JSON: a form (multipart/form-data, as uploads of audio
// and pictures have it), or a body behind gzip or deflate. Only routing uses it; what engines are sent stays as it is.
//
// Memory and work are bounded: a form is searched once, where it lies; of a coded body the first 64 KiB of its text
// are looked at, in memory that all requests of a thread share. A model that does not stand there counts as none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/http/head.hpp"

namespace weir::proxy::serve {

/// Looks for the field `model` of a form that comes piece by piece. Any split gives the same.
class FormModel {
 public:
  explicit FormModel(std::string_view boundary) : delimiter_("\r\n--" + std::string(boundary)) {}

  /// Goes on where the last call ended. `form` is all that has come, and costs time linear in what is new.
  void read(std::string_view form);
  /// Returns the last field of that name, as frameworks do; "" if there is none, or if it is no name of a model: longer
  /// than 128 bytes, a file, or with control characters.
  const std::string& model() const { return model_; }

 private:
  bool read_part(std::string_view form, std::size_t begin);

  std::string delimiter_;
  std::size_t at_ = 0;  ///< All before it has been read.
  std::string model_;
  bool ended_ = false;
};

class BodyModel {
 public:
  /// The head says what the body is.
  explicit BodyModel(const http::RequestHead& head);

  /// Goes on in a body of which so much has come. Coded bodies are read at their end.
  void read(std::string_view body) {
    if (form_ && coding_ == Coding::none) form_->read(body);
  }
  /// Returns the model that the whole body names; "" if it is plain JSON, or cannot be read. Call it once. A coded body
  /// takes half a millisecond at most.
  std::string take(std::string_view body);

  /// So much of a coded body's text is looked at.
  static constexpr std::size_t most_decoded = std::size_t{64} * 1024;

 private:
  enum class Coding : std::uint8_t { none, gzip, deflate, unknown };
  Coding coding_ = Coding::none;
  std::optional<FormModel> form_;
};

}  // namespace weir::proxy::serve
