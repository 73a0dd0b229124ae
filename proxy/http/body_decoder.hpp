// Takes the framing off a message's body, piece by piece, in place: Content-Length, chunked, or until the close.
//
// It is pure, and each body has one object. Chunk extensions end here: each needs a name (RFC 9112, 7.1.1), and a line
// of them over 256 bytes is an error. Trailers are read within a limit and dropped. Any split of the input gives the
// same payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

class BodyDecoder {
 public:
  static constexpr std::size_t max_size_digits = 16;  ///< Zeros count too, because a size line that never ends is no
                                                      ///< size.
  static constexpr std::size_t max_extension = 256;
  static constexpr std::size_t max_trailers = 16 * 1024;

  BodyDecoder() = default;  ///< Makes the decoder of a message without a body.
  BodyDecoder(Framing framing, std::uint64_t length);

  struct Decoded {
    std::span<char> payload;   ///< It is what the piece holds of the body, moved together inside the piece.
    std::size_t consumed = 0;  ///< So many bytes of the piece belong to this message; fewer than all only if finished
                               ///< or failed.
  };

  /// Decodes a piece in place; `piece` is overwritten where chunks are moved together.
  Decoded decode(std::span<char> piece);

  bool finished() const { return state_ == State::finished; }  ///< The framing is whole (never true until the close).
  bool failed() const {
    return state_ == State::failed;
  }  ///< The framing is broken, so the connection is of no
     ///< use.
  bool ends_with_close() const { return state_ == State::until_close; }

 private:
  enum class State : std::uint8_t {
    length,
    until_close,
    size_first,      // It expects the first digit of a chunk's size.
    size,            // It expects further digits.
    extension_name,  // It expects the first byte of an extension's name, behind a semicolon.
    extension,       // It reads up to the CR, or to the next semicolon.
    quoted,          // It reads an extension's value up to the quote that ends it.
    quoted_pair,     // It takes any byte that a backslash quotes.
    size_lf,
    chunk,
    chunk_cr,
    chunk_lf,
    trailer_start,
    trailer,
    trailer_lf,
    end_lf,
    finished,
    failed,
  };
  void framing_byte(char c);
  void extension_byte(char c);

  State state_ = State::finished;
  std::uint64_t left_ = 0;  ///< It counts what is left of the body (length) or of the chunk.
  std::size_t line_ = 0;    ///< It counts digits of the size, bytes of the extensions, or bytes of all trailers.
};

}  // namespace weir::proxy::http
