//! Checks one image by decoding it, and encodes it anew where the provider would refuse it.

use std::io::Cursor;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cachalot_model::{Extra, Image, ImageSource, MediaLimits};
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPDecoder;
use image::{
    AnimationDecoder as _, DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader,
    Limits,
};

/// Maximum pixels of an image that is decoded: 64 megapixels, 256 MiB.
const MAX_PIXELS: u64 = 64 << 20;

/// Maximum memory that a decoder may use: 640 MiB.
const MAX_DECODER_MEMORY: u64 = 640 << 20;

/// Minimum edge in pixels to which an image is scaled down: smaller ones are not legible.
const MIN_EDGE: u32 = 16;

/// JPEG quality.
const QUALITY: u8 = 85;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The reason why an image cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MediaError {
    #[error("it is empty")]
    Empty,
    #[error("its base64 cannot be read: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("{kind}, {bytes} bytes: PNG, JPEG, GIF and WebP can be shown")]
    UnknownFormat { kind: String, bytes: usize },
    #[error("it is damaged: {0}")]
    Damaged(ImageError),
    #[error(
        "it has {width}×{height} pixels, and at most {MAX_PIXELS} pixels are decoded; make it smaller first"
    )]
    TooManyPixels { width: u32, height: u32 },
    #[error(
        "it has {width}×{height} pixels, and there is room for {max_bytes} bytes: the other images of the conversation take up the rest of what its provider takes in a request"
    )]
    NoRoom {
        width: u32,
        height: u32,
        max_bytes: usize,
    },
    #[error("it cannot be encoded: {0}")]
    NotEncoded(ImageError),
    #[error(
        "the conversation holds {0} images already, and its provider takes no more in a request"
    )]
    TooManyImages(usize),
    /// The decoder has panicked.
    #[error("it cannot be read")]
    Unreadable,
}

/// An image that the provider accepts.
#[derive(Debug)]
pub(super) struct AcceptedImage {
    pub(super) image: Image,
    /// A note for the model about how the image was changed.
    pub(super) note: Option<String>,
}

/// Returns the image in a form that the provider accepts, in at most `room` bytes of base64.
///
/// # Errors
/// The reason why it cannot be shown.
pub(super) fn adapt_image(
    image: Image,
    limits: &MediaLimits,
    room: usize,
) -> Result<AcceptedImage, MediaError> {
    let (stated, base64) = match &image.source {
        ImageSource::Inline { media_type, base64 } => (media_type.as_str(), base64.as_str()),
        ImageSource::Url(url) => match inline_parts(url) {
            Some(parts) => parts,
            // The provider fetches it.
            None => return Ok(AcceptedImage { image, note: None }),
        },
    };
    let bytes = decode_base64(base64)?;
    let Some(format) = detect_format(&bytes) else {
        let kind = match stated {
            "" => "unknown type",
            stated => stated,
        };
        return Err(MediaError::UnknownFormat {
            kind: kind.to_owned(),
            bytes: bytes.len(),
        });
    };
    let max_bytes = limits.image_bytes.min(room);
    let original = Original::read(&bytes, format)?;
    let media_type = format.to_mime_type();
    let is_taken = limits.types.iter().any(|known| known == media_type)
        && (limits.animated || !original.is_animated);
    let (width, height) = (original.image.width(), original.image.height());
    let is_small = width.max(height) <= limits.image_edge;
    if is_taken && is_small && encoded_length(bytes.len()) <= max_bytes {
        let source = ImageSource::Inline {
            media_type: media_type.to_owned(),
            base64: if base64.len() == encoded_length(bytes.len()) {
                base64.to_owned()
            } else {
                BASE64.encode(&bytes)
            },
        };
        let image = Image { source, ..image };
        return Ok(AcceptedImage { image, note: None });
    }
    let Encoded {
        media_type,
        bytes,
        size: shown,
    } = original.encoded(limits, max_bytes)?;
    let note = match shown == (width, height) {
        true if original.is_animated => Some("[the first frame of an animation]".to_owned()),
        true => None,
        false => Some(format!(
            "[the image was scaled down from {width}×{height} to {}×{} pixels]",
            shown.0, shown.1
        )),
    };
    Ok(AcceptedImage {
        image: inline(media_type, &bytes, image.extra),
        note,
    })
}

/// Creates an image from the bytes of a file.
pub(super) fn inline(media_type: &str, bytes: &[u8], extra: Extra) -> Image {
    Image {
        source: ImageSource::Inline {
            media_type: media_type.to_owned(),
            base64: BASE64.encode(bytes),
        },
        extra,
    }
}

/// Splits a `data:` URL into media type and base64.
fn inline_parts(url: &str) -> Option<(&str, &str)> {
    let (head, base64) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type.split(';').next().unwrap_or_default(), base64))
}

fn decode_base64(base64: &str) -> Result<Vec<u8>, MediaError> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let decoded = if base64.as_bytes().iter().any(is_blank) {
        BASE64.decode(base64.split_ascii_whitespace().collect::<String>())
    } else {
        BASE64.decode(base64)
    };
    match decoded {
        Ok(bytes) if bytes.is_empty() => Err(MediaError::Empty),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.into()),
    }
}

/// The base64 length of `bytes` bytes.
fn encoded_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Detects the image format by the first bytes. The stated media type may be wrong, and the provider would
/// then refuse the image.
fn detect_format(bytes: &[u8]) -> Option<ImageFormat> {
    let format = image::guess_format(bytes).ok()?;
    let is_known = matches!(
        format,
        ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP
    );
    is_known.then_some(format)
}

/// A decoded input image.
struct Original {
    image: DynamicImage,
    format: ImageFormat,
    is_animated: bool,
}

/// An image in an accepted format and size.
struct Encoded {
    media_type: &'static str,
    bytes: Vec<u8>,
    /// Width and height in pixels.
    size: (u32, u32),
}

impl Original {
    fn read(bytes: &[u8], format: ImageFormat) -> Result<Self, MediaError> {
        let (width, height) = ImageReader::with_format(Cursor::new(bytes), format)
            .into_dimensions()
            .map_err(MediaError::Damaged)?;
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(MediaError::TooManyPixels { width, height });
        }
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODER_MEMORY);
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
        reader.limits(limits);
        let mut decoder = reader.into_decoder().map_err(MediaError::Damaged)?;
        // Metadata may contain an orientation, which a new encoding does not keep.
        let orientation = decoder.orientation().map_err(MediaError::Damaged)?;
        let mut image = DynamicImage::from_decoder(decoder).map_err(MediaError::Damaged)?;
        image.apply_orientation(orientation);
        Ok(Self {
            image,
            format,
            is_animated: is_animated(bytes, format),
        })
    }

    /// Encodes the image in an accepted format and size: as PNG if the original is not a JPEG and the PNG is
    /// small enough, otherwise as JPEG. Scales it down until it fits.
    fn encoded(&self, limits: &MediaLimits, max_bytes: usize) -> Result<Encoded, MediaError> {
        let (width, height) = (self.image.width(), self.image.height());
        let mut edge = width.max(height).min(limits.image_edge);
        let fits = |bytes: &[u8]| encoded_length(bytes.len()) <= max_bytes;
        let encoders: &[(ImageFormat, Encoder)] = match self.format {
            ImageFormat::Jpeg => &[(ImageFormat::Jpeg, jpeg)],
            _ => &[(ImageFormat::Png, png), (ImageFormat::Jpeg, jpeg)],
        };
        loop {
            let scaled;
            let image = if edge < width.max(height) {
                scaled = self
                    .image
                    .resize(edge, edge, image::imageops::FilterType::Triangle);
                &scaled
            } else {
                &self.image
            };
            for (format, encode) in encoders {
                let bytes = encode(image)?;
                if fits(&bytes) {
                    return Ok(Encoded {
                        media_type: format.to_mime_type(),
                        bytes,
                        size: (image.width(), image.height()),
                    });
                }
            }
            edge = edge / 4 * 3;
            if edge < MIN_EDGE {
                return Err(MediaError::NoRoom {
                    width,
                    height,
                    max_bytes,
                });
            }
        }
    }
}

type Encoder = fn(&DynamicImage) -> Result<Vec<u8>, MediaError>;

fn png(image: &DynamicImage) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    // Models do not benefit from 16 bits per channel.
    let image: DynamicImage = if image.color().has_alpha() {
        image.to_rgba8().into()
    } else {
        image.to_rgb8().into()
    };
    let written = image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png);
    written.map_err(MediaError::NotEncoded)?;
    Ok(bytes)
}

fn jpeg(image: &DynamicImage) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    let opaque = if image.color().has_alpha() {
        on_white(image)
    } else {
        image.to_rgb8()
    };
    JpegEncoder::new_with_quality(&mut bytes, QUALITY)
        .encode_image(&opaque)
        .map_err(MediaError::NotEncoded)?;
    Ok(bytes)
}

/// Draws the image on a white background: JPEG has no transparency.
fn on_white(image: &DynamicImage) -> image::RgbImage {
    let image = image.to_rgba8();
    image::RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let [red, green, blue, alpha] = image.get_pixel(x, y).0;
        let over = |channel: u8| {
            let (channel, alpha) = (u32::from(channel), u32::from(alpha));
            u8::try_from((channel * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
        };
        image::Rgb([over(red), over(green), over(blue)])
    })
}

/// True if the image has several frames. Frames that cannot be decoded do not count.
fn is_animated(bytes: &[u8], format: ImageFormat) -> bool {
    match format {
        ImageFormat::Gif => GifDecoder::new(Cursor::new(bytes))
            .is_ok_and(|decoder| decoder.into_frames().take(2).filter(Result::is_ok).count() > 1),
        ImageFormat::WebP => {
            WebPDecoder::new(Cursor::new(bytes)).is_ok_and(|decoder| decoder.has_animation())
        }
        _ => false,
    }
}

/// Images for tests.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod samples {
    use super::*;
    use image::codecs::gif::GifEncoder;
    use image::{Frame, Rgb, RgbImage, Rgba, RgbaImage};

    pub(in crate::media) fn inline(media_type: &str, bytes: &[u8]) -> Image {
        super::inline(media_type, bytes, Extra::new())
    }

    pub(in crate::media) fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        image
            .write_to(&mut Cursor::new(&mut bytes), format)
            .unwrap();
        bytes
    }

    pub(in crate::media) fn plain(width: u32, height: u32) -> DynamicImage {
        RgbImage::from_pixel(width, height, Rgb([10, 20, 30])).into()
    }

    pub(in crate::media) fn png(width: u32, height: u32) -> Vec<u8> {
        encoded(&plain(width, height), ImageFormat::Png)
    }

    /// An image that cannot be compressed.
    pub(in crate::media) fn noise(width: u32, height: u32, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let image = RgbImage::from_fn(width, height, |_, _| Rgb([next(), next(), next()]));
        encoded(&image.into(), ImageFormat::Png)
    }

    pub(in crate::media) fn animation(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let frame = |shade| {
            let image = RgbaImage::from_pixel(width, height, Rgba([shade, 0, 0, 255]));
            Frame::new(image)
        };
        let mut encoder = GifEncoder::new(&mut bytes);
        encoder.encode_frames([frame(1), frame(200)]).unwrap();
        drop(encoder);
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn limits() -> MediaLimits {
        MediaLimits {
            image_bytes: 20_000,
            image_edge: 100,
            images: 100,
            request_bytes: 1_000_000,
            text_bytes: 100,
            types: vec!["image/png".to_owned(), "image/jpeg".to_owned()],
            animated: false,
        }
    }

    fn fitted(bytes: &[u8]) -> Result<AcceptedImage, MediaError> {
        adapt_image(samples::inline("image/png", bytes), &limits(), 1_000_000)
    }

    /// Decodes the result, and checks that the provider accepts it.
    fn checked(picture: &AcceptedImage) -> (String, DynamicImage) {
        let ImageSource::Inline { media_type, base64 } = &picture.image.source else {
            panic!("{picture:?}");
        };
        assert!(limits().types.contains(media_type), "{media_type}");
        assert!(base64.len() <= limits().image_bytes, "{}", base64.len());
        let bytes = BASE64.decode(base64).unwrap();
        assert_eq!(detect_format(&bytes).unwrap().to_mime_type(), media_type);
        let image = image::load_from_memory(&bytes).unwrap();
        assert!(image.width().max(image.height()) <= limits().image_edge);
        (media_type.clone(), image)
    }

    #[test]
    fn an_image_of_too_many_pixels_is_scaled_down() {
        for format in [
            ImageFormat::Png,
            ImageFormat::Jpeg,
            ImageFormat::Gif,
            ImageFormat::WebP,
        ] {
            let bytes = samples::encoded(&samples::plain(400, 200), format);
            let picture = fitted(&bytes).unwrap();
            let (_, image) = checked(&picture);
            assert_eq!((image.width(), image.height()), (100, 50), "{format:?}");
            assert_eq!(
                picture.note.as_deref(),
                Some("[the image was scaled down from 400×200 to 100×50 pixels]")
            );
        }
    }

    #[test]
    fn image_with_too_many_bytes_is_reencoded() {
        let (media_type, image) = checked(&fitted(&samples::noise(80, 80, 7)).unwrap());
        assert_eq!((media_type.as_str(), image.width()), ("image/jpeg", 80));
        let mut narrow = limits();
        narrow.image_bytes = 2_000;
        let image = samples::inline("image/png", &samples::noise(100, 100, 7));
        let ImageSource::Inline { base64, .. } =
            adapt_image(image, &narrow, 9_999).unwrap().image.source
        else {
            panic!("no image");
        };
        assert!(base64.len() <= 2_000);
    }

    #[test]
    fn unsupported_formats_and_animations_are_converted_to_png() {
        for bytes in [
            samples::encoded(&samples::plain(9, 9), ImageFormat::WebP),
            samples::encoded(&samples::plain(9, 9), ImageFormat::Gif),
            samples::animation(9, 9),
        ] {
            let (media_type, image) = checked(&fitted(&bytes).unwrap());
            assert_eq!((media_type.as_str(), image.width()), ("image/png", 9));
        }
        let mut some = limits();
        some.types.push("image/gif".to_owned());
        let animation = samples::inline("image/gif", &samples::animation(9, 9));
        let first = adapt_image(animation.clone(), &some, 9_999).unwrap();
        assert_eq!(
            first.note.as_deref(),
            Some("[the first frame of an animation]")
        );
        some.animated = true;
        assert_eq!(
            adapt_image(animation.clone(), &some, 9_999).unwrap().image,
            animation
        );
    }

    #[test]
    fn the_media_type_is_that_of_the_bytes_and_the_base64_is_plain() {
        let bytes = samples::encoded(&samples::plain(9, 9), ImageFormat::Jpeg);
        let wrapped = BASE64.encode(&bytes);
        let (half, rest) = wrapped.split_at(20);
        let image = Image {
            source: ImageSource::Url(format!(
                "data:image/png;base64,{half}\r\n{}",
                rest.trim_end_matches('=')
            )),
            extra: Extra::new(),
        };
        let shown = adapt_image(image, &limits(), 9_999).unwrap();
        assert_eq!(shown.image, samples::inline("image/jpeg", &bytes));
    }

    #[test]
    fn undecodable_images_are_rejected_with_the_reason() {
        let mut cut = samples::noise(50, 50, 3);
        cut.truncate(cut.len() / 2);
        for (bytes, why) in [
            (
                &b"<svg xmlns='http://www.w3.org/2000/svg'/>"[..],
                "image/png, 41 bytes: PNG, JPEG, GIF and WebP can be shown",
            ),
            (&b""[..], "it is empty"),
            (&cut[..], "it is damaged"),
            (&b"\x89PNG\r\n\x1a\nnothing"[..], "it is damaged"),
        ] {
            let told = fitted(bytes).unwrap_err().to_string();
            assert!(told.starts_with(why), "{told}");
        }
        let image = Image {
            source: ImageSource::Inline {
                media_type: "image/png".to_owned(),
                base64: "%%%".to_owned(),
            },
            extra: Extra::new(),
        };
        let told = adapt_image(image, &limits(), 9_999)
            .unwrap_err()
            .to_string();
        assert!(told.starts_with("its base64 cannot be read"), "{told}");
        let told = adapt_image(
            samples::inline("image/png", &samples::noise(50, 50, 3)),
            &limits(),
            90,
        );
        assert!(
            told.unwrap_err()
                .to_string()
                .contains("there is room for 90 bytes")
        );
    }

    #[test]
    fn a_decompression_bomb_is_not_decoded() {
        // The header specifies 50,000 × 50,000 pixels, with hardly any data.
        let mut bomb = samples::png(8, 8);
        bomb[16..20].copy_from_slice(&50_000_u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&50_000_u32.to_be_bytes());
        let mut crc = crc32(&bomb[12..29]).to_be_bytes().to_vec();
        bomb.splice(29..33, crc.drain(..));
        let told = fitted(&bomb).unwrap_err().to_string();
        assert!(
            told.starts_with("it has 50000×50000 pixels, and at most 67108864 pixels are decoded"),
            "{told}"
        );
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0_u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
            })
        })
    }

    #[test]
    fn transparency_becomes_white() {
        let image = image::RgbaImage::from_pixel(2, 2, image::Rgba([0, 0, 0, 0]));
        assert_eq!(on_white(&image.into()).get_pixel(1, 1).0, [255; 3]);
    }
}
