// Takes the framing off a message's body, piece by piece, in place: Content-Length, chunked, or until the close.
//
// A decoder is pure, and each body has its own. Chunk extensions and trailers end here: both are held to their grammar
// (RFC 9112, 7.1.1 and 5) and dropped. A line of extensions over 256 bytes is an error, and so are trailers over 16
// KiB. Any split of the input gives the same payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

class BodyDecoder {
 public:
  static constexpr std::size_t max_size_digits = 16;  ///< Zeros count too.
  static constexpr std::size_t max_extension = 256;
  static constexpr std::size_t max_trailers = 16 * 1024;

  BodyDecoder() = default;  ///< Makes the decoder of a message without a body.
  BodyDecoder(Framing framing, std::uint64_t length);

  struct Decoded {
    std::span<char> payload;   ///< The part of the body in this piece, moved together inside it.
    std::size_t consumed = 0;  ///< The bytes of this message; fewer than the piece only if finished or failed.
  };

  /// Decodes a piece in place; `piece` is overwritten where chunks are moved together.
  Decoded decode(std::span<char> piece);

  bool finished() const { return state_ == State::finished; }  ///< The framing is whole (never true until the close).
  bool failed() const { return state_ == State::failed; }      ///< The framing is broken: the connection is of no use.
  bool ends_with_close() const { return state_ == State::until_close; }

 private:
  enum class State : std::uint8_t {
    length,
    until_close,
    size_first,        // Expects the first digit of a chunk's size.
    size,              // Expects further digits.
    extension_start,   // Expects an extension's name, behind a semicolon.
    extension_name,    // Reads the name.
    extension_equals,  // Expects "=" or a semicolon, behind a blank.
    value_start,       // Expects an extension's value, behind "=".
    value,             // Reads a value that is a token.
    quoted,            // Reads a value up to the quote that ends it.
    quoted_pair,       // Takes any byte that a backslash quotes.
    value_end,         // Has read that quote.
    extension_end,     // Expects a semicolon, behind a blank.
    size_lf,
    chunk,
    chunk_cr,
    chunk_lf,
    trailer_start,
    trailer_name,
    trailer_value,
    trailer_lf,
    end_lf,
    finished,
    failed,
  };
  void framing_byte(char c);
  void extension_byte(char c);
  void trailer_byte(char c);

  State state_ = State::finished;
  std::uint64_t left_ = 0;  ///< The rest of the body (length) or of the chunk.
  std::size_t line_ = 0;    ///< Counts digits of the size, bytes of the extensions, or bytes of all trailers.
};

}  // namespace weir::proxy::http
